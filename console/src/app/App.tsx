import { localStorageColorSchemeManager, MantineProvider } from "@mantine/core";
import { QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { Suspense } from "react";
import { AskProvider } from "@/parts/Ask";
import { Toasts } from "@/parts/Toasts";
import { TextsProvider } from "@/texts";
import { queries } from "./queries";
import { router } from "./router";
import { SessionGate } from "./session";
import { ShortcutsProvider } from "./shortcuts";
import { theme } from "./theme";

const schemes = localStorageColorSchemeManager({ key: "headgate-scheme" });

/** Everything around the pages. Mantine is kept from writing <style> tags: its variables are in a file of their own. */
export function App() {
  return (
    <MantineProvider
      theme={theme}
      defaultColorScheme="auto"
      colorSchemeManager={schemes}
      withCssVariables={false}
      withStaticClasses={false}
      withGlobalClasses={false}
    >
      <QueryClientProvider client={queries}>
        <Suspense>
          <TextsProvider>
            <Toasts />
            <SessionGate>
              <ShortcutsProvider>
                <AskProvider>
                  <RouterProvider router={router} />
                </AskProvider>
              </ShortcutsProvider>
            </SessionGate>
          </TextsProvider>
        </Suspense>
      </QueryClientProvider>
    </MantineProvider>
  );
}
