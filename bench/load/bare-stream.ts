/**
 * A bare grpc-js server that streams given messages: the yardstick of query.stream. The first argument
 * names a file of messages, each behind its length (32 bits, little endian); they are sent over and over,
 * as often as the second argument says.
 */
import { readFileSync } from "node:fs";

import { Server, ServerCredentials, type ServerWritableStream } from "@grpc/grpc-js";

import { flightServiceDefinition } from "../../src/routes/flight/service.js";

const [file = "", times = "1"] = process.argv.slice(2);
const bytes = readFileSync(file);
const messages: Buffer[] = [];
for (let at = 0; at < bytes.length;) {
  const length = bytes.readUInt32LE(at);
  messages.push(bytes.subarray(at + 4, at + 4 + length));
  at += 4 + length;
}
const total = messages.length * Number(times);

const server = new Server({ "grpc.max_send_message_length": -1 });
server.addService(
  { DoGet: flightServiceDefinition["DoGet"] as never },
  {
    DoGet: (call: ServerWritableStream<Buffer, Buffer>) => {
      const send = (count: number): void => {
        if (count === total) call.end();
        else {
          call.write(messages[count % messages.length] ?? Buffer.alloc(0), () => {
            send(count + 1);
          });
        }
      };
      send(0);
    },
  },
);
server.bindAsync("127.0.0.1:0", ServerCredentials.createInsecure(), (error, port) => {
  if (error !== null) throw error;
  process.stdout.write(`grpc://127.0.0.1:${port}\n`);
});
