/** The model that a map's file holds. */
import {
  type BufferGeometry,
  type Color,
  type Material,
  Mesh,
  MeshStandardMaterial,
  type Object3D,
  Texture,
} from "three";
import { GLTFLoader, type GLTFParser } from "three/addons/loaders/GLTFLoader.js";

import { wordsOf } from "../../api/error.js";

/** Why there is no scene; a sentence for people. */
export class SceneError extends Error {
  override readonly name = "SceneError";
}

/** @throws SceneError for a file that cannot be read. */
export async function readModel(file: ArrayBuffer): Promise<Object3D> {
  const loader = new GLTFLoader().register((parser) => {
    // Its own way leads over addresses of blobs, which the policy of the page forbids.
    parser.loadImageSource = (index) => embeddedImage(parser, index);
    return { name: "embedded-images" };
  });
  try {
    const { scene } = await loader.parseAsync(file, "");
    return scene;
  } catch (error) {
    throw new SceneError(`This map cannot be read: ${wordsOf(error)}.`);
  }
}

async function embeddedImage(parser: GLTFParser, index: number): Promise<Texture> {
  const json = parser.json as { images: readonly { readonly bufferView: number; readonly mimeType: string }[] };
  const image = json.images[index];
  const bytes = (await parser.getDependency("bufferView", image?.bufferView ?? -1)) as ArrayBuffer;
  const blob = new Blob([bytes], { type: image?.mimeType ?? "" });
  const texture = new Texture(await createImageBitmap(blob, { colorSpaceConversion: "none" }));
  texture.needsUpdate = true;
  return texture;
}

const materialsOf = (each: Object3D): readonly Material[] =>
  "material" in each ? ([each.material].flat() as readonly Material[]) : [];

/** Surfaces without a material of their own are white to glTF. */
export function paintBare(model: Object3D, colour: Color): void {
  model.traverse((each) => {
    for (const material of materialsOf(each)) {
      const isBare =
        each instanceof Mesh &&
        material instanceof MeshStandardMaterial &&
        material.name === "" &&
        material.map === null &&
        !material.vertexColors;
      if (isBare && (material.userData["bare"] === true || material.color.getHex() === 0xffffff)) {
        material.userData["bare"] = true;
        material.color.copy(colour);
        material.metalness = 0;
      }
    }
  });
}

export function disposeModel(model: Object3D): void {
  model.traverse((each) => {
    if (each instanceof Mesh) {
      (each.geometry as BufferGeometry).dispose();
    }
    for (const material of materialsOf(each)) {
      for (const value of Object.values(material)) {
        if (value instanceof Texture) {
          if (value.image instanceof ImageBitmap) {
            value.image.close();
          }
          value.dispose();
        }
      }
      material.dispose();
    }
  });
}
