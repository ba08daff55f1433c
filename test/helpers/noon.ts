/** When the rows of many tests begin: 2025-11-21T12:00:00Z, in nanoseconds and in milliseconds since 1970. */
export const noon = 1_763_726_400_000_000_000n;
export const noonMs = 1_763_726_400_000;
