/** How a result can be printed. */
export const queryFormats = ["table", "expanded", "json", "csv", "arrow"] as const;

/** One of {@link queryFormats}. */
export type QueryFormat = (typeof queryFormats)[number];
