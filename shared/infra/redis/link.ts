import type { Log as ProcessLog } from '#infra/log/log.ts';

/** What this folder needs of a log. */
export type Log = Pick<ProcessLog, 'debug' | 'info' | 'warn' | 'error'>;

/**
 * One connection from dial to death. A session never reconnects by itself: both client libraries can, but they come
 * back with stale scripts, a dead blocking call or a full queue of old commands, and node_redis gives up for good
 * after an hour. The link throws the whole session away and opens a new one.
 */
export interface Session<Client> {
  client: Client;
  /** Settles when the client may be used, or cannot be. May stay open for ever: the link's patience ends it. */
  ready: Promise<unknown>;
  /** Asks Redis something small; a rejection or silence means that the session is dead. */
  check(): Promise<unknown>;
  /** Frees sockets at once and fails what is in flight. Never throws; the link calls it once. */
  end(): void;
}

export interface Link<Client> {
  /** The client while it is believed to answer, else null. Nobody waits for one on a request's path. */
  current(): Client | null;
  /** Gives `client` up, if it is still the current one, and dials again after `pauseMs` (default: the back-off). */
  drop(client: Client, reason: unknown, pauseMs?: number): void;
  /** No new dial from now on; `farewell` may finish with the current client before it ends. Never rejects. */
  close(farewell?: (client: Client) => Promise<unknown>): Promise<void>;
}

interface LinkParts<Client> {
  log: Log;
  /** What is lost while the link is down, for the log: `doorbell`, `replies`. */
  purpose: string;
  /** `host:port`, without secrets. */
  label: string;
  /** Opens a session; calls `lost` (never synchronously) when it notices that the session died. */
  open(lost: (reason: unknown) => void): Session<Client>;
  checkEveryMs?: number;
}

/** Connecting, TLS, AUTH and the answer to the first command together may take this long. */
const OPEN_PATIENCE_MS = 2_000;
const CHECK_PATIENCE_MS = 1_000;
const FIRST_DELAY_MS = 100;
const LAST_DELAY_MS = 1_000;
/** A session that died younger than this counts as a failed dial, so that a flapping Redis is not dialled in a loop. */
const STEADY_MS = 2_000;

/**
 * Keeps one session open for as long as the process wants it, dialling again with a capped, jittered back-off.
 * An outage is logged once when it begins and once when a check has proven that it is over, however often it flaps
 * in between. Errors are logged by message only: those of node_redis carry the arguments of AUTH.
 */
export function keepConnected<Client>(parts: LinkParts<Client>): Link<Client> {
  const { log, purpose, label, open, checkEveryMs = 1_000 } = parts;
  let session: Session<Client> | null = null;
  let readySince: number | null = null;
  let awaySince: number | null = null;
  let delayMs = FIRST_DELAY_MS;
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function dial(): void {
    const dialled = open((reason) => lose(dialled, reason));
    session = dialled;
    timer = setTimeout(() => lose(dialled, new OutOfTime(OPEN_PATIENCE_MS)), OPEN_PATIENCE_MS);
    dialled.ready.then(
      () => {
        if (session !== dialled || closed) return;
        readySince = performance.now();
        checkLater(dialled);
      },
      (reason) => lose(dialled, reason),
    );
  }

  function checkLater(checked: Session<Client>): void {
    clearTimeout(timer);
    timer = setTimeout(() => {
      within(CHECK_PATIENCE_MS, checked.check()).then(
        () => {
          if (session !== checked || closed) return;
          outageIsOver();
          checkLater(checked);
        },
        (reason) => lose(checked, reason),
      );
    }, checkEveryMs);
  }

  function lose(lost: Session<Client>, reason: unknown, pauseMs?: number): void {
    if (session !== lost || closed) return;
    const wasSteady = readySince !== null && performance.now() - readySince >= STEADY_MS;
    delayMs = wasSteady ? FIRST_DELAY_MS : Math.min(delayMs * 2, LAST_DELAY_MS);
    session = null;
    readySince = null;
    clearTimeout(timer);
    lost.end();
    if (awaySince === null) {
      awaySince = performance.now();
      log.warn({ redis: label, purpose, reason: messageOf(reason) }, 'Redis is away');
    }
    timer = setTimeout(dial, pauseMs ?? delayMs * (0.5 + Math.random() / 2));
  }

  function outageIsOver(): void {
    if (awaySince === null) return;
    log.info({ redis: label, purpose, awayMs: Math.round(performance.now() - awaySince) }, 'Redis is back');
    awaySince = null;
  }

  dial();
  return {
    current: () => (session !== null && readySince !== null && !closed ? session.client : null),
    drop(client, reason, pauseMs) {
      if (session?.client === client) lose(session, reason, pauseMs);
    },
    async close(farewell) {
      if (closed) return;
      const last = readySince === null ? null : session;
      closed = true;
      clearTimeout(timer);
      try {
        if (last !== null) await farewell?.(last.client);
      } catch (error) {
        log.debug({ redis: label, purpose, reason: messageOf(error) }, 'Redis was left early');
      }
      session?.end();
      session = null;
    },
  };
}

function messageOf(reason: unknown): string {
  return reason instanceof Error ? reason.message : String(reason);
}

/** What `within` rejects with when the time is up. */
export class OutOfTime extends Error {
  constructor(ms: number) {
    super(`No answer within ${ms} ms`);
    this.name = 'OutOfTime';
  }
}

/**
 * Waits at most `ms` for `promise`, then rejects with OutOfTime; the late result is dropped, a late rejection too.
 *
 * When the timer fires, sockets get one more turn: if it was this process that was busy for longer than `ms`, the
 * answer already lies in the socket, and giving up the connection for that would punish Redis for our own pause.
 */
export async function within<T>(ms: number, promise: Promise<T>): Promise<T> {
  const late = Promise.withResolvers<never>();
  const timer = setTimeout(() => setImmediate(() => late.reject(new OutOfTime(ms))), ms);
  try {
    return await Promise.race([promise, late.promise]);
  } finally {
    clearTimeout(timer);
  }
}
