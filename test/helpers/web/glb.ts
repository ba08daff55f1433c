/** Binary glTF files for tests. */

/** A GLB of JSON and bytes, padded as the format wants it. */
export function glbOf(json: object, bytes: Uint8Array = new Uint8Array(0)): Buffer {
  const text = Buffer.from(JSON.stringify(json));
  const padded = Buffer.concat([text, Buffer.alloc(-text.length & 3, " ")]);
  const chunks = [chunk(0x4e4f534a, padded)];
  if (bytes.length > 0) {
    chunks.push(chunk(0x004e4942, Buffer.concat([bytes, Buffer.alloc(-bytes.length & 3)])));
  }
  const body = Buffer.concat(chunks);
  return Buffer.concat([uint32s(0x46546c67, 2, 12 + body.length), body]);
}

const chunk = (kind: number, bytes: Buffer): Buffer => Buffer.concat([uint32s(bytes.length, kind), bytes]);

function uint32s(...values: readonly number[]): Buffer {
  const into = Buffer.alloc(values.length * 4);
  values.forEach((value, i) => into.writeUInt32LE(value, i * 4));
  return into;
}

/** The corners of a box as long as it is wide, from -1 to 1, and its faces. */
const corners = Array.from({ length: 8 }, (_, i) => [i & 1 ? 1 : -1, i & 2 ? 1 : -1, i & 4 ? 1 : -1]).flat();
const faces = [
  [0, 2, 3, 1],
  [4, 5, 7, 6],
  [0, 1, 5, 4],
  [2, 6, 7, 3],
  [0, 4, 6, 2],
  [1, 3, 7, 5],
].flatMap(([a = 0, b = 0, c = 0, d = 0]) => [a, b, c, a, c, d]);

/** A pixel, red: the smallest PNG there is. */
const pixel = Buffer.from(
  "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGP4z8DwHwAFAAH/iZk9HQAAAABJRU5ErkJggg==",
  "base64",
);

/** A hall of 20 by 12 with shelves in it; one shelf has a picture for its material. */
export function hallGlb(): Buffer {
  const places = Buffer.from(Float32Array.from(corners).buffer);
  const indices = Buffer.from(Uint16Array.from(faces).buffer);
  const shelf = (x: number, z: number, mesh: number) => ({ mesh, translation: [x, 1.2, z], scale: [0.6, 1.2, 3] });
  const nodes = [
    { mesh: 0, translation: [0, -0.1, 0], scale: [10, 0.1, 6] },
    ...[-6, -2, 2].map((x) => shelf(x, 0, 0)),
    shelf(6, 0, 1),
  ];
  const bytes = Buffer.concat([places, indices, pixel]);
  const primitive = { attributes: { POSITION: 0 }, indices: 1 };
  const json = {
    asset: { version: "2.0" },
    scene: 0,
    scenes: [{ nodes: nodes.map((_, i) => i) }],
    nodes,
    meshes: [{ primitives: [primitive] }, { primitives: [{ ...primitive, material: 0 }] }],
    materials: [{ name: "pictured", pbrMetallicRoughness: { baseColorTexture: { index: 0 }, metallicFactor: 0 } }],
    textures: [{ source: 0 }],
    images: [{ bufferView: 2, mimeType: "image/png" }],
    accessors: [
      { bufferView: 0, componentType: 5126, count: 8, type: "VEC3", min: [-1, -1, -1], max: [1, 1, 1] },
      { bufferView: 1, componentType: 5123, count: 36, type: "SCALAR" },
    ],
    bufferViews: [
      { buffer: 0, byteOffset: 0, byteLength: places.length },
      { buffer: 0, byteOffset: places.length, byteLength: indices.length },
      { buffer: 0, byteOffset: places.length + indices.length, byteLength: pixel.length },
    ],
    buffers: [{ byteLength: bytes.length }],
  };
  return glbOf(json, bytes);
}
