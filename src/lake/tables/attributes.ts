/**
 * Attributes with columns of their own. A merged object has, beside the JSON text of all attributes of a row
 * (`properties`), those that occur often as columns `attr.<name>`: what `attr(properties, '<name>')` gives, row by row.
 * The catalogue knows which an object has, and the names of all attributes in it.
 */
import { quoteName, quoteText } from "../../runtime/text/sql-text.js";

/** What an object tells about the attributes of its rows. */
export interface ObjectAttributes {
  /** Those that are columns. */
  readonly columns: readonly string[];
  /** All that there are; null when they are not known, or too many. */
  readonly names: readonly string[] | null;
}

/** Names that may be those of columns: what SDKs send, and nothing that has a meaning of its own in JSON paths or SQL. */
const plainName = /^[A-Za-z_][A-Za-z0-9_.:@-]{0,127}$/u;

/** What names of such columns begin with. */
export const attributeColumnPrefix = "attr.";

/** Whether an attribute of this name may be a column. */
export function isPlainAttribute(name: string): boolean {
  return plainName.test(name);
}

/** The column of an attribute, quoted for SQL. @param name as {@link isPlainAttribute} says */
export function attributeColumnSql(name: string): string {
  return quoteName(`${attributeColumnPrefix}${name}`);
}

/** SQL of some attributes of a row as a list of their texts, as `attr` gives them, read off the text once; null, if that is no JSON. */
export function attributesSql(names: readonly string[]): string {
  return `TRY(json_extract_string(properties, [${names.map((name) => quoteText(`/${name}`)).join(", ")}]))`;
}
