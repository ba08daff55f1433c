/** Messages of Flight's actions, of polling and of putting (Flight.proto; FlightSql.proto). */
import { bytesField, eachField, onlyBytes, decodeText, varintField } from "../protobuf-fields.js";
import { encodeAny, encodeTimestamp, flightSqlNames } from "./flight-protobuf.js";

/** Flight.proto CancelStatus. */
export const cancelStatus = { cancelled: 1, cancelling: 2, notCancellable: 3 } as const;

/** Flight.proto SetSessionOptionsResult.ErrorValue. */
export const sessionErrors = { invalidName: 1, invalidValue: 2, error: 3 } as const;

/** Flight.proto CloseSessionResult.Status. */
const sessionClosed = 1;

/** A message of a DoPut: everything is empty where it is absent. */
interface PutData {
  /** Encoded FlightDescriptor, in the first message. */
  readonly descriptor: Uint8Array;
  /** Message.fbs Message. */
  readonly header: Uint8Array;
  readonly body: Uint8Array;
}

/** Decodes FlightData. @throws ServiceError BAD_REQUEST */
export function decodeFlightData(message: Uint8Array): PutData {
  return { descriptor: onlyBytes(message, 1), header: onlyBytes(message, 2), body: onlyBytes(message, 1000) };
}

/** Encodes the PutResult of bound parameters: the handle to use from now on (DoPutPreparedStatementResult). */
export function encodeBoundStatement(handle: Uint8Array): Buffer {
  return bytesField(1, bytesField(1, handle));
}

/** Encodes a PollInfo of a query that can be fetched. */
export function encodePollInfo(flightInfo: Uint8Array, expiresMs: number | null): Buffer {
  const progress = Buffer.alloc(9);
  progress[0] = (3 << 3) | 1;
  progress.writeDoubleLE(1, 1);
  const parts = [bytesField(1, flightInfo), progress];
  if (expiresMs !== null) {
    parts.push(bytesField(4, encodeTimestamp(expiresMs)));
  }
  return Buffer.concat(parts);
}

/** Encodes an ActionType. */
export function encodeActionType(type: string, description: string): Buffer {
  return Buffer.concat([bytesField(1, Buffer.from(type)), bytesField(2, Buffer.from(description))]);
}

/** Encodes a Result. */
export function encodeResult(body: Uint8Array): Buffer {
  return bytesField(1, body);
}

/** The expression of a Criteria. @throws ServiceError BAD_REQUEST */
export function decodeCriteria(message: Uint8Array): string {
  return decodeText(onlyBytes(message, 1));
}

/** The tickets of a CancelFlightInfoRequest (field 1: FlightInfo). @throws ServiceError BAD_REQUEST */
export function decodeCancelFlightInfo(body: Uint8Array): Uint8Array[] {
  return ticketsOfInfo(onlyBytes(body, 1));
}

/** The tickets of a FlightInfo. @throws ServiceError BAD_REQUEST */
export function ticketsOfInfo(info: Uint8Array): Uint8Array[] {
  const tickets: Uint8Array[] = [];
  eachField(info, (field, endpoint) => {
    if (field === 3) {
      tickets.push(ticketOfEndpoint(endpoint));
    }
  });
  return tickets;
}

/** The ticket of a FlightEndpoint. @throws ServiceError BAD_REQUEST */
export function ticketOfEndpoint(endpoint: Uint8Array): Uint8Array {
  return onlyBytes(onlyBytes(endpoint, 1), 1);
}

/** The endpoint of a RenewFlightEndpointRequest. @throws ServiceError BAD_REQUEST */
export function decodeRenewFlightEndpoint(body: Uint8Array): Uint8Array {
  return onlyBytes(body, 1);
}

/** Encodes the Result of CancelFlightInfo. */
export function encodeCancelFlightInfoResult(status: number): Buffer {
  return encodeResult(varintField(1, BigInt(status)));
}

/** Encodes the Result of CancelQuery. */
export function encodeCancelQueryResult(status: number): Buffer {
  return encodeResult(encodeAny(flightSqlNames.cancelQueryResult, varintField(1, BigInt(status))));
}

/** The value of a session option as it was sent: none unsets the option, other is no text. */
export type SessionOptionValue = { readonly kind: "text"; readonly text: string } | { readonly kind: "none" | "other" };

/** Session options by name. */
export type SessionOptions = ReadonlyMap<string, SessionOptionValue>;

/** Most options that are read. */
const maxSessionOptions = 1000;

/** Decodes SetSessionOptionsRequest. @throws ServiceError BAD_REQUEST */
export function decodeSetSessionOptions(body: Uint8Array): SessionOptions {
  const options = new Map<string, SessionOptionValue>();
  eachField(body, (field, entry) => {
    if (field !== 1 || options.size >= maxSessionOptions) {
      return;
    }
    options.set(decodeText(onlyBytes(entry, 1)), decodeSessionOptionValue(onlyBytes(entry, 2)));
  });
  return options;
}

/** Flight.proto SessionOptionValue: a oneof, of which the last counts. */
function decodeSessionOptionValue(message: Uint8Array): SessionOptionValue {
  let value: SessionOptionValue = { kind: message.length === 0 ? "none" : "other" };
  eachField(
    message,
    (field, bytes) => {
      value = field === 1 ? { kind: "text", text: decodeText(bytes) } : { kind: "other" };
    },
    () => {
      value = { kind: "other" };
    },
  );
  return value;
}

/** Encodes the Result of SetSessionOptions: the options that were refused and why ({@link sessionErrors}). */
export function encodeSetSessionOptionsResult(errors: ReadonlyMap<string, number>): Buffer {
  return encodeResult(
    Buffer.concat(
      Array.from(errors, ([name, error]) =>
        bytesField(1, Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, varintField(1, BigInt(error)))])),
      ),
    ),
  );
}

/** Encodes the Result of GetSessionOptions. */
export function encodeGetSessionOptionsResult(options: ReadonlyMap<string, string>): Buffer {
  return encodeResult(
    Buffer.concat(
      Array.from(options, ([name, value]) =>
        bytesField(
          1,
          Buffer.concat([bytesField(1, Buffer.from(name)), bytesField(2, bytesField(1, Buffer.from(value)))]),
        ),
      ),
    ),
  );
}

/** Encodes the Result of CloseSession. */
export function encodeCloseSessionResult(): Buffer {
  return encodeResult(varintField(1, BigInt(sessionClosed)));
}
