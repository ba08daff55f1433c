/** The metadata commands of Flight SQL (FlightSql.proto): what they ask for. */
import { eachField, malformed, decodeText } from "../protobuf-fields.js";

/** CommandGetDbSchemas; null where a filter is absent. */
interface GetDbSchemas {
  /** The empty text asks for those without a catalog. */
  readonly catalog: string | null;
  readonly schemaPattern: string | null;
}

/** CommandGetTables. */
export interface GetTables extends GetDbSchemas {
  readonly tablePattern: string | null;
  /** Empty: any. */
  readonly tableTypes: readonly string[];
  readonly includeSchema: boolean;
}

/** @throws ServiceError BAD_REQUEST */
export function decodeGetDbSchemas(message: Uint8Array): GetDbSchemas {
  let catalog: string | null = null;
  let schemaPattern: string | null = null;
  eachField(message, (field, bytes) => {
    if (field === 1) {
      catalog = decodeText(bytes);
    } else if (field === 2) {
      schemaPattern = decodeText(bytes);
    }
  });
  return { catalog, schemaPattern };
}

/** @throws ServiceError BAD_REQUEST */
export function decodeGetTables(message: Uint8Array): GetTables {
  let tablePattern: string | null = null;
  const tableTypes: string[] = [];
  let includeSchema = false;
  eachField(
    message,
    (field, bytes) => {
      if (field === 3) {
        tablePattern = decodeText(bytes);
      } else if (field === 4) {
        tableTypes.push(decodeText(bytes));
      }
    },
    (field, number) => {
      if (field === 5) {
        includeSchema = number !== 0;
      }
    },
  );
  return { ...decodeGetDbSchemas(message), tablePattern, tableTypes, includeSchema };
}

/**
 * Reads a command about keys for its form: there are no keys, so there is no answer that it changes.
 * @param textFields numbers of its fields that hold text
 * @throws ServiceError BAD_REQUEST
 */
export function checkTextFields(message: Uint8Array, textFields: number): void {
  eachField(message, (field, bytes) => {
    if (field <= textFields) {
      decodeText(bytes);
    }
  });
}

/** The ids that CommandGetSqlInfo asks for; empty: all. @throws ServiceError BAD_REQUEST */
export function decodeGetSqlInfo(message: Uint8Array): number[] {
  const ids: number[] = [];
  eachField(
    message,
    (field, bytes) => {
      if (field === 1) {
        ids.push(...unpack(bytes, maxIds - ids.length));
      }
    },
    (field, number) => {
      if (field === 1) {
        ids.push(number);
      }
    },
  );
  return ids;
}

/** The type that CommandGetXdbcTypeInfo asks for; null: all. @throws ServiceError BAD_REQUEST */
export function decodeGetXdbcTypeInfo(message: Uint8Array): number | null {
  let type: number | null = null;
  eachField(
    message,
    () => undefined,
    (field, number) => {
      if (field === 1) {
        type = number | 0;
      }
    },
  );
  return type;
}

/** Most ids that are read: more than there are. */
const maxIds = 10_000;

/** A packed repeated uint32. @param most numbers of it */
function unpack(bytes: Uint8Array, most: number): number[] {
  const numbers: number[] = [];
  let value = 0;
  let shift = 0;
  for (const byte of bytes) {
    if (shift > 28) {
      throw malformed();
    }
    value += (byte & 0x7f) * 2 ** shift;
    shift += 7;
    if (byte >= 0x80) {
      continue;
    }
    numbers.push(value);
    if (numbers.length > most) {
      throw malformed();
    }
    value = 0;
    shift = 0;
  }
  if (shift !== 0) {
    throw malformed();
  }
  return numbers;
}
