import { toast } from "../toast.js";

/** Puts a text into the clipboard, or says that the browser does not let it. @returns whether it is there */
export async function copyText(text: string): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text); // without https there is no clipboard at all
    return true;
  } catch {
    toast(
      "Not copied",
      "The browser keeps this page from the clipboard. Select the text and copy it yourself.",
      "error",
    );
    return false;
  }
}

/** Hands a file to the browser. */
export function saveFile(name: string, content: Blob): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = name;
  link.click();
  // The browser has it by then.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
