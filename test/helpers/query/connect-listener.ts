/** Spark Connect as a cluster listens for it, with messages as they came. */
import { type handleUnaryCall, Server, type ServerWritableStream, type ServiceDefinition } from "@grpc/grpc-js";
import { bindLocally } from "../bind-locally.js";

/** What becomes of each request. */
interface ConnectHandlers {
  readonly executePlan: (call: ServerWritableStream<Buffer, Buffer>) => void;
  readonly unary: (name: "Config" | "Interrupt" | "ReleaseSession") => handleUnaryCall<Buffer, Buffer>;
}

/** Listens on a free port of loopback. */
export async function listenForConnect(o: ConnectHandlers): Promise<{ readonly uri: string; stop(): void }> {
  const server = new Server({ "grpc.max_receive_message_length": -1 });
  const same = (bytes: Buffer): Buffer => bytes;
  const method = (name: string, responseStream: boolean): ServiceDefinition[string] => ({
    path: `/spark.connect.SparkConnectService/${name}`,
    requestStream: false,
    responseStream,
    requestSerialize: same,
    requestDeserialize: same,
    responseSerialize: same,
    responseDeserialize: same,
  });
  const unary = ["Config", "Interrupt", "ReleaseSession"] as const;
  server.addService(
    {
      ExecutePlan: method("ExecutePlan", true),
      ...Object.fromEntries(unary.map((name) => [name, method(name, false)])),
    },
    { ExecutePlan: o.executePlan, ...Object.fromEntries(unary.map((name) => [name, o.unary(name)])) },
  );
  const port = await bindLocally(server);
  return {
    uri: `sc://127.0.0.1:${port}`,
    stop: () => {
      server.forceShutdown();
    },
  };
}
