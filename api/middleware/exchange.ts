import type { IncomingMessage, ServerResponse } from 'node:http';
import type { Identity } from '#api/route.ts';
import type { Rejection } from '#shared/kernel/errors.ts';

/** One request with its response, and what the server remembers about them until the last byte is written. */
export interface Exchange {
  request: IncomingMessage;
  response: ServerResponse;
  requestId: string;
  /** Path of the route as mounted, never the path as sent: it labels logs and metrics. */
  template: string;
  identity: Identity;
  /** `performance.now()` at the start and when the reply was handed to the socket. */
  startedAt: number;
  answeredAt: number | undefined;
  /** Bytes of the body budget to be given back. */
  reserved: number;
  /** Set while the body is being read: how a fault of the connection reaches the reader. */
  interrupt: ((why: Rejection) => void) | undefined;
  /** The rest of the body will not come, or nobody could tell where it ends: the connection ends with the reply. */
  broken: boolean;
  abort: AbortController | undefined;
}

export const UNROUTED = '(none)';

export function newExchange(request: IncomingMessage, response: ServerResponse, requestId: string): Exchange {
  return {
    request,
    response,
    requestId,
    template: UNROUTED,
    identity: {},
    startedAt: performance.now(),
    answeredAt: undefined,
    reserved: 0,
    interrupt: undefined,
    broken: false,
    abort: undefined,
  };
}

/** True once the client cannot be answered any more. */
export function isGone(exchange: Exchange): boolean {
  return exchange.response.destroyed || exchange.request.socket.destroyed;
}
