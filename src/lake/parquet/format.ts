/** Numbers of the Parquet format (parquet.thrift, format 2.11). */

export const physicalType = { boolean: 0, int32: 1, int64: 2, double: 5, byteArray: 6 } as const;
export const repetition = { required: 0, optional: 1, repeated: 2 } as const;
export const convertedType = { utf8: 0, list: 3, uint64: 14, int64: 18 } as const;
export const encoding = { plain: 0, rle: 3, deltaLengthByteArray: 6, rleDictionary: 8 } as const;
export const codec = { uncompressed: 0, lz4Raw: 7 } as const;
export const pageType = { dictionary: 2, dataV2: 3 } as const;
