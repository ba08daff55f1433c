import { type Server, ServerCredentials } from "@grpc/grpc-js";

/** Has a server of gRPC listen on a port of loopback. @returns the port */
export function bindLocally(server: Server): Promise<number> {
  return new Promise((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) {
        resolve(bound);
      } else {
        reject(error);
      }
    });
  });
}
