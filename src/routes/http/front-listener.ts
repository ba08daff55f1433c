/** A listener together with the front that answers its requests, as one component. */
import type { Component } from "../../runtime/lifecycle.js";
import type { HttpListener } from "./seam.js";

/** Listens until it is stopped, which answers every open request first. */
export interface FrontListener extends Component {
  readonly address: HttpListener["address"];
}

/** Stops the listener once the front has answered what it had taken. */
export function withFront(name: string, listener: HttpListener, front: { drain(): Promise<void> }): FrontListener {
  let stopping: Promise<void> | null = null;
  const stop = async (): Promise<void> => {
    listener.stopListening();
    await front.drain();
    await listener.stop();
  };
  return {
    name,
    address: listener.address,
    stop() {
      stopping ??= stop();
      return stopping;
    },
  };
}
