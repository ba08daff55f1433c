/** Where two JSON values differ. */
import { isObject } from "../../shared/is-object.js";

/** Most places that are told. */
const maxPlaces = 20;

/** The paths at which two values differ, for example `cells[2].sql`; the first ones only. */
export function differences(left: unknown, right: unknown): string[] {
  const places: string[] = [];
  collect(left, right, "", places);
  return places;
}

function collect(left: unknown, right: unknown, at: string, places: string[]): void {
  if (places.length >= maxPlaces || Object.is(left, right)) {
    return;
  }
  if (Array.isArray(left) && Array.isArray(right)) {
    for (let i = 0; i < Math.max(left.length, right.length); i++) {
      collect(left[i], right[i], `${at}[${i}]`, places);
    }
  } else if (isObject(left) && isObject(right)) {
    for (const name of new Set([...Object.keys(left), ...Object.keys(right)])) {
      collect(left[name], right[name], at === "" ? name : `${at}.${name}`, places);
    }
  } else {
    places.push(at === "" ? "everything" : at);
  }
}
