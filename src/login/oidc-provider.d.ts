// oidc-provider ships no types; this is what is used of it.
declare module "oidc-provider" {
  import type { IncomingMessage, ServerResponse } from "node:http";

  /** The library's context of a request, as far as the configuration looks at it. */
  export interface OidcContext {
    type: string;
    body: unknown;
    set(headers: Readonly<Record<string, string>>): void;
    readonly oidc: {
      readonly session?: { destroy(): Promise<void> };
      readonly provider: Provider;
      readonly client?: { readonly clientId: string };
      readonly account?: { readonly accountId: string };
      readonly params?: { readonly scope?: string; readonly grant_type?: string };
      readonly result?: { readonly login?: unknown };
    };
  }

  /** A login under way. */
  export interface Interaction {
    readonly uid: string;
    readonly params: { readonly client_id?: string };
  }

  export interface Grant {
    addOIDCScope(scope: string): void;
    save(): Promise<string>;
  }

  export class Provider {
    constructor(issuer: string, configuration: Record<string, unknown>);
    readonly Grant: new (o: { readonly accountId: string; readonly clientId: string }) => Grant;
    callback(): (request: IncomingMessage, response: ServerResponse) => Promise<void>;
    interactionDetails(request: IncomingMessage, response: ServerResponse): Promise<Interaction>;
    interactionFinished(
      request: IncomingMessage,
      response: ServerResponse,
      result: Record<string, unknown>,
      o: { readonly mergeWithLastSubmission: boolean },
    ): Promise<void>;
    on(event: "error", listener: (error: Error) => void): this;
    on(event: "server_error", listener: (context: unknown, error: Error) => void): this;
  }

  export const errors: { readonly SessionNotFound: new () => Error };

  export const interactionPolicy: {
    readonly Check: new (
      reason: string,
      description: string,
      check: (context: OidcContext) => boolean,
    ) => { readonly reason: string };
    readonly Prompt: new (
      o: { readonly name: string; readonly requestable: boolean },
      ...checks: readonly { readonly reason: string }[]
    ) => { readonly name: string };
  };
}
