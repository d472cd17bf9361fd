import { createTheme, type MantineColorsTuple } from "@mantine/core";

const brand: MantineColorsTuple = [
  "#e4f5f8",
  "#c9e8ee",
  "#9bd3de",
  "#67bccc",
  "#3fa8bc",
  "#2599af",
  "#128ca4",
  "#0b7a91",
  "#0a6b80",
  "#0a5869",
];
const gray: MantineColorsTuple = [
  "#f7f9fa",
  "#eff2f5",
  "#e4e9ed",
  "#d6dde3",
  "#bcc6cf",
  "#97a4b0",
  "#5f6c79",
  "#495561",
  "#343e48",
  "#1e262d",
];
const dark: MantineColorsTuple = [
  "#d7dde3",
  "#b4bec8",
  "#93a0ad",
  "#66737f",
  "#36424d",
  "#29323b",
  "#1c242b",
  "#131a20",
  "#0f151a",
  "#0a0e12",
];

/** What the console looks like. The rest is in global.css; sizes are small, because people come to see much at once. */
export const theme = createTheme({
  primaryColor: "brand",
  primaryShade: { light: 7, dark: 7 },
  colors: { brand, gray, dark },
  black: "#1a2229",
  cursorType: "pointer",
  defaultRadius: "md",
  fontFamily:
    'system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "Noto Sans CJK SC", "PingFang SC", sans-serif',
  fontFamilyMonospace: 'ui-monospace, "SF Mono", "Cascadia Mono", "Segoe UI Mono", "Liberation Mono", Menlo, monospace',
  fontSizes: { xs: "0.75rem", sm: "0.8125rem", md: "0.875rem", lg: "1rem", xl: "1.25rem" },
  radius: { xs: "3px", sm: "4px", md: "6px", lg: "10px", xl: "16px" },
  headings: {
    fontWeight: "600",
    sizes: {
      h1: { fontSize: "1.125rem", lineHeight: "1.4" },
      h2: { fontSize: "0.9375rem", lineHeight: "1.4" },
      h3: { fontSize: "0.8125rem", lineHeight: "1.4" },
    },
  },
  components: {
    ActionIcon: { defaultProps: { variant: "subtle", color: "gray" } },
    Badge: { defaultProps: { radius: "sm", variant: "light" } },
    Autocomplete: { defaultProps: { size: "xs" } },
    Button: { defaultProps: { size: "xs" } },
    Checkbox: { defaultProps: { size: "xs" } },
    // Fields beside each other stay in line, whether they are explained or not.
    InputWrapper: { defaultProps: { inputWrapperOrder: ["label", "input", "description", "error"] } },
    RadioGroup: { defaultProps: { inputWrapperOrder: ["label", "description", "input", "error"] } },
    // Scrolling is held by global.css while a dialog is open: Mantine would write a <style> tag for it.
    Drawer: { defaultProps: { lockScroll: false } },
    Modal: { defaultProps: { lockScroll: false, centered: true, overlayProps: { backgroundOpacity: 0.45 } } },
    Menu: { defaultProps: { shadow: "md", withinPortal: true } },
    MultiSelect: { defaultProps: { size: "xs" } },
    NumberInput: { defaultProps: { size: "xs" } },
    PasswordInput: { defaultProps: { size: "sm" } },
    Select: { defaultProps: { size: "xs" } },
    SegmentedControl: { defaultProps: { size: "xs" } },
    Switch: { defaultProps: { size: "xs" } },
    Text: { defaultProps: { size: "sm" } },
    Textarea: { defaultProps: { size: "xs" } },
    TextInput: { defaultProps: { size: "xs" } },
    Tooltip: { defaultProps: { withArrow: true, openDelay: 250, transitionProps: { duration: 80 } } },
  },
});
