/** Identities that show by themselves whether all their parts come from one write. */

/** Key id and audience of version `version` of key number `index`; every part depends on both. */
export function identityOfVersion(index: number, version: number): { keyId: string; audience: string } {
  const v = version.toString(16).padStart(8, "0");
  const n = index.toString(16).padStart(4, "0");
  const letter = String.fromCharCode(97 + ((version + index) % 26));
  return {
    keyId: `${v}-${n}-${v.slice(0, 4)}-${v.slice(4)}-${v}${n}`,
    audience: letter.repeat(1 + ((version * 37 + index) % 255)),
  };
}

/** The version that an id of `identityOfVersion` was made for. */
export function versionOfKeyId(keyId: string): number {
  return Number.parseInt(keyId.slice(0, 8), 16);
}
