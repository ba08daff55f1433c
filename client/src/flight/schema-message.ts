import { RecordBatchReader, type Schema } from "apache-arrow";

/** An encapsulated schema message; null for no bytes, or a schema without columns. */
export function readSchema(message: Uint8Array): Schema | null {
  if (message.length === 0) {
    return null;
  }
  const { schema } = RecordBatchReader.from(message).open();
  return schema.fields.length === 0 ? null : schema;
}
