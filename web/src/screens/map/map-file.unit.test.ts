import { expect, it } from "vitest";

import { mapFileProblem } from "./map-file.js";

function glb(json: unknown, magic = 0x46546c67): ArrayBuffer {
  const text = new TextEncoder().encode(typeof json === "string" ? json : JSON.stringify(json));
  const bytes = new Uint8Array(20 + text.length);
  const head = new DataView(bytes.buffer);
  [magic, 2, bytes.length, text.length, 0x4e4f534a].forEach((value, i) => head.setUint32(i * 4, value, true));
  bytes.set(text, 20);
  return bytes.buffer;
}

const asset = { version: "2.0" };

it("lets a file through that has everything in it", () => {
  const images = [{ bufferView: 0, mimeType: "image/png" }];
  const extensionsRequired = ["KHR_materials_unlit", "KHR_mesh_quantization"];
  expect(mapFileProblem(glb({ asset, buffers: [{ byteLength: 4 }], images, extensionsRequired }))).toBeNull();
});

it.each([
  [new ArrayBuffer(4), /no binary glTF/],
  [glb({ asset }, 1), /no binary glTF/],
  [glb("{"), /no binary glTF/],
  [glb([]), /no binary glTF/],
  [glb({ asset }).slice(0, 25), /no binary glTF/],
  [glb({ asset, buffers: [{ uri: "a.bin" }] }), /outside itself/],
  [glb({ asset, images: [{ uri: "data:image/png;base64,AA==" }] }), /outside itself/],
  [glb({ asset, extensionsUsed: ["KHR_draco_mesh_compression"] }), /needs KHR_draco_mesh_compression/],
  [glb({ asset, extensionsRequired: ["KHR_texture_basisu"] }), /needs KHR_texture_basisu/],
  [glb({ asset, extensionsRequired: [5] }), /needs 5/],
])("says why another one cannot be shown", (file, sentence) => {
  expect(mapFileProblem(file)).toMatch(sentence);
});
