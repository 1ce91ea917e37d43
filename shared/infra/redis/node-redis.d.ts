/**
 * The part of node_redis 3.1.2 that this folder uses. The package has no types, and the published ones describe another major
 * version. bee-queue's own declarations resolve `redis` through this file as well.
 */
declare module 'redis' {
  import type { EventEmitter } from 'node:events';
  import type { Socket } from 'node:net';
  import type { ConnectionOptions } from 'node:tls';

  export interface ClientOpts {
    host?: string;
    port?: number;
    path?: string;
    family?: 'IPv4' | 'IPv6';
    user?: string;
    password?: string;
    db?: number;
    tls?: ConnectionOptions;
    enable_offline_queue?: boolean;
    /** Ready as soon as connected, without reading INFO. */
    no_ready_check?: boolean;
    /** Milliseconds until the next connection attempt. Any result that is not a number ends the client permanently. */
    retry_strategy?: () => number | undefined;
    /** Milliseconds of silence before the kernel's first keep-alive probe. */
    socket_initial_delay?: number;
  }

  export class RedisClient extends EventEmitter {
    readonly stream: Socket;
    readonly ready: boolean;
    ping(done: (error: Error | null, reply?: string) => void): boolean;
    duplicate(): RedisClient;
    end(flush: boolean): void;
    /** Internal. The parser calls `return_reply` for every reply and `return_error` for every error reply. */
    return_reply(reply: unknown): void;
    return_error(error: unknown): void;
  }

  export function createClient(options: ClientOpts): RedisClient;
}
