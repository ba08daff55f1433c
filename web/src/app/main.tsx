import "@fontsource-variable/inter/wght.css";
import "@fontsource-variable/jetbrains-mono/wght.css";
import "./theme.css";
import "./base.css";

import { QueryClient, QueryClientProvider } from "@tanstack/react-query";
import { RouterProvider } from "@tanstack/react-router";
import { CSPProvider } from "@base-ui/react/csp-provider";
import { createRoot } from "react-dom/client";

import { ApiError } from "../api/error.js";
import { createAppRouter } from "./router.js";

const queries = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: 10_000,
      refetchOnWindowFocus: false,
      // Without a network they fail, and say so, in place of waiting for it.
      networkMode: "always",
      refetchOnReconnect: true,
      // Only what may be different in a moment.
      retry: (count, error) =>
        count < 2 && error instanceof ApiError && ["OFFLINE", "UNAVAILABLE"].includes(error.code),
    },
  },
});
const root = document.getElementById("root");
if (root === null) {
  throw new Error("index.html has no #root");
}
createRoot(root).render(
  // The policy of the page allows no style elements.
  <CSPProvider disableStyleElements>
    <QueryClientProvider client={queries}>
      <RouterProvider router={createAppRouter()} />
    </QueryClientProvider>
  </CSPProvider>,
);
