// Before the first paint, so that a dark page does not flash white. Not a module: it must not wait.
(() => {
  const chosen = localStorage.getItem("headgate-scheme");
  const dark = chosen === "dark" || (chosen !== "light" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.setAttribute("data-mantine-color-scheme", dark ? "dark" : "light");
  document.documentElement.lang = localStorage.getItem("headgate-language") ?? navigator.language;
})();
