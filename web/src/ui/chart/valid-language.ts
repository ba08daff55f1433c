/**
 * uPlot makes a number format for `navigator.language` when it is loaded, and throws where that is no tag of BCP 47:
 * Chromium calls the C locale `en-US@posix`. Import this before it.
 */
try {
  Intl.getCanonicalLocales(navigator.language);
} catch {
  Object.defineProperty(navigator, "language", { value: "en-US" });
}
