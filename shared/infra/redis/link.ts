import type { Log as ProcessLog } from '#infra/log/log.ts';
import { outsideScopes } from '#infra/trace/scope.ts';

/** The part of the process log that this folder uses. */
export type LinkLog = Pick<ProcessLog, 'debug' | 'info' | 'warn' | 'error'>;

/**
 * One connection from dial to end. A session never reconnects by itself; the link discards it and opens a new one.
 *
 * Both client libraries can reconnect, but they then have stale scripts, a dead blocking call or a queue full of old commands.
 * Besides, node_redis stops reconnecting for ever after an hour.
 */
export interface LinkSession<Client> {
  client: Client;
  /** Resolves when the client may be used; rejects when the dial has failed. It may never settle; the link then times out. */
  ready: Promise<unknown>;
  /** Sends a small command to Redis. If it rejects or times out, the session is dead. */
  check(): Promise<unknown>;
  /** Frees the sockets at once and fails the commands in flight. Never throws. The link calls it once. */
  end(): void;
}

export interface Link<Client> {
  /** Returns the client while the connection is up, else null at once: a request never waits for a dial. */
  current(): Client | null;
  /** Ends the session of `client` if it is still the current one, and dials again after `pauseMs` (default: the backoff). */
  drop(client: Client, reason: unknown, pauseMs?: number): void;
  /** Stops dialling. Runs `farewell` with the current client, if there is one, and then ends its session. Never rejects. */
  close(farewell?: (client: Client) => Promise<unknown>): Promise<void>;
}

interface LinkParts<Client> {
  log: LinkLog;
  /** The use of the link, for the log: `doorbells`, `sending replies`. */
  purpose: string;
  /** `host:port`, without secrets. */
  label: string;
  /** Opens a session. It calls `lost`, never synchronously, when it notices that the session is dead. */
  open(lost: (reason: unknown) => void): LinkSession<Client>;
  checkEveryMs?: number;
}

/** Time limit for connecting, TLS, AUTH and the reply to the first command together. */
const OPEN_TIMEOUT_MS = 2_000;
/** Time limit of one check. */
const CHECK_TIMEOUT_MS = 1_000;
/** Shortest and longest wait before a dial, before jitter shortens it. */
const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 1_000;
/** A session that ends earlier than this counts as a failed dial, so that a flapping Redis is not dialled in a loop. */
const STEADY_MS = 2_000;

/**
 * Keeps one session open until `close`, and redials a lost one with a capped, jittered backoff.
 *
 * An outage is logged once when it begins and once when a check has succeeded after it, even if the connection flaps in between.
 * Only the message of an error is logged, because errors of node_redis contain the arguments of AUTH.
 */
export function keepConnected<Client>(parts: LinkParts<Client>): Link<Client> {
  const { log, purpose, label, open, checkEveryMs = 1_000 } = parts;
  let session: LinkSession<Client> | null = null;
  let readySince: number | null = null;
  let awaySince: number | null = null;
  let delayMs = FIRST_DELAY_MS;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function dial(): void {
    const dialled = open((reason) => lose(dialled, reason));
    session = dialled;
    timer = setTimeout(() => lose(dialled, new ReplyTimeout(OPEN_TIMEOUT_MS)), OPEN_TIMEOUT_MS);
    dialled.ready.then(
      () => {
        if (session !== dialled || closed) return;
        readySince = performance.now();
        checkLater(dialled);
      },
      (reason) => lose(dialled, reason),
    );
  }

  function checkLater(checked: LinkSession<Client>): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      withReplyTimeout(CHECK_TIMEOUT_MS, checked.check()).then(
        () => {
          if (session !== checked || closed) return;
          outageIsOver();
          checkLater(checked);
        },
        (reason) => lose(checked, reason),
      );
    }, checkEveryMs);
  }

  function lose(lost: LinkSession<Client>, reason: unknown, pauseMs?: number): void {
    if (session !== lost || closed) return;
    const wasSteady = readySince !== null && performance.now() - readySince >= STEADY_MS;
    delayMs = wasSteady ? FIRST_DELAY_MS : Math.min(delayMs * 2, LAST_DELAY_MS);
    session = null;
    readySince = null;
    clearTimeout(timer);
    lost.end();
    if (awaySince === null) {
      awaySince = performance.now();
      log.warn({ redis: label, purpose, reason: messageOf(reason) }, 'Redis connection lost');
    }
    timer = setTimeout(dial, pauseMs ?? delayMs * (0.5 + Math.random() / 2));
  }

  function outageIsOver(): void {
    if (awaySince === null) return;
    log.info({ redis: label, purpose, awayMs: Math.round(performance.now() - awaySince) }, 'Redis connection restored');
    awaySince = null;
  }

  // The sockets and timers of a link that a request opens serve every later request.
  outsideScopes(dial);
  return {
    current: () => (session !== null && readySince !== null && !closed ? session.client : null),
    drop(client, reason, pauseMs) {
      const lost = session;
      if (lost?.client === client) outsideScopes(() => lose(lost, reason, pauseMs));
    },
    async close(farewell) {
      if (closed) return;
      const last = readySince === null ? null : session;
      closed = true;
      clearTimeout(timer);
      try {
        if (last !== null) await farewell?.(last.client);
      } catch (error) {
        log.debug({ redis: label, purpose, reason: messageOf(error) }, 'Redis connection closed with work unfinished');
      }
      session?.end();
      session = null;
    },
  };
}

function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** The rejection of `withReplyTimeout` when the time limit is reached. */
export class ReplyTimeout extends Error {
  constructor(ms: number) {
    super(`No answer within ${ms} ms`);
    this.name = 'ReplyTimeout';
  }
}

/**
 * Waits at most `ms` for `promise`, then rejects with ReplyTimeout. A later result or rejection is ignored.
 *
 * When the timer fires, sockets get one more turn of the event loop. If this process itself was busy for longer than `ms`, the
 * reply is already in the socket, and the connection must not be dropped for our own pause.
 */
export async function withReplyTimeout<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => setImmediate(() => late.reject(new ReplyTimeout(ms))), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
