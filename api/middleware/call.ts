import type { Call, Identity } from '#api/route.ts';
import type { Exchange } from './exchange.ts';

/** The call that a handler gets. Its AbortSignal is made when first asked for: most handlers never do. */
export class RouteCall implements Call<never, never> {
  readonly requestId: string;
  readonly params: Readonly<Record<string, string>>;
  readonly query: never;
  readonly body: never;
  readonly headers: Readonly<Record<string, string | undefined>>;
  readonly identity: Identity;
  readonly peer: string;
  readonly #signal: () => AbortSignal;

  constructor(
    exchange: Exchange,
    head: { params: Readonly<Record<string, string>>; headers: Readonly<Record<string, string | undefined>> },
    input: { body: unknown; query: unknown },
    signal: () => AbortSignal,
  ) {
    this.requestId = exchange.requestId;
    this.params = head.params;
    this.headers = head.headers;
    this.identity = exchange.identity;
    this.peer = exchange.request.socket.remoteAddress ?? '';
    // Checked by the route's schemas just before; the handler names the generated types.
    this.body = input.body as never;
    this.query = input.query as never;
    this.#signal = signal;
  }

  get signal(): AbortSignal {
    return this.#signal();
  }
}
