import { AsyncLocalStorage } from 'node:async_hooks';
import { createRequire, syncBuiltinESMExports } from 'node:module';
import { Socket } from 'node:net';
import timers from 'node:timers';
import timersPromises from 'node:timers/promises';
import type { ClientSession } from 'mongodb';
import { sessionIdOf } from '#infra/mongo/mailbox/claim.ts';
import type { Sent } from './crash-points.ts';

/** Passes the traffic of a life on. A promise that never settles ends the life at that point. */
export interface Traffic {
  command(command: Sent, send: () => Promise<unknown>): Promise<unknown>;
  fetch(call: () => Promise<Response>): Promise<Response>;
}

interface State {
  readonly traffic: Traffic;
  readonly sockets: Set<Socket>;
  readonly timers: Set<NodeJS.Timeout>;
  readonly sessions: Set<ClientSession>;
  /** Aborted at the end of the life. */
  readonly over: AbortSignal;
}

/** The life of the running code; null or undefined in the code of the test itself. */
const lives = new AsyncLocalStorage<State | null>();
let areWatched = false;

/**
 * Begins the life of a simulated process inside the process of a test. Everything that `live` starts belongs to the life; several lives may run
 * at a time.
 *
 * `end` has the effect of SIGKILL on the outside: it closes each socket of the life without a farewell. MongoDB finds open transactions
 * on cut connections. From then on the life sends nothing, none of its timers fires, and it notices no event of a socket. Its MongoDB
 * commands, calls to other services and pauses never settle, even those that began before the end.
 */
export function beginLife(traffic: Traffic) {
  // Wraps everything by which code of a life reaches the outside, or by which the outside wakes it. Code outside of any life is not affected.
  if (!areWatched) for (const watch of [watchSockets, watchCommands, watchCalls, watchTimers]) watch();
  areWatched = true;
  const over = new AbortController();
  const state: State = { traffic, sockets: new Set(), timers: new Set(), sessions: new Set(), over: over.signal };
  return {
    live: <T>(work: () => T): T => lives.run(state, work),
    end() {
      if (over.signal.aborted) return;
      over.abort();
      for (const timer of state.timers) clearTimeout(timer);
      for (const socket of state.sockets) cut(socket);
      state.timers.clear();
      state.sockets.clear();
    },
    /** Returns the ids of the MongoDB sessions with an open transaction. After `end`, the server still has these transactions. */
    openTransactions: () =>
      [...state.sessions].filter((session) => session.inTransaction()).flatMap((session) => sessionIdOf(session) ?? []),
  };
}

/** Closes a socket as the operating system closes that of a killed process. Its owner does not notice. */
function cut(socket: Socket): void {
  socket.removeAllListeners();
  socket.on('error', () => undefined);
  socket.destroy();
}

/** Returns the result of work of a life, or never settles once the life has ended. */
async function whileAlive<T>({ over }: State, work: () => Promise<T>): Promise<T> {
  if (over.aborted) return never();
  try {
    const result = await work();
    return over.aborted ? never() : result;
  } catch (error) {
    if (over.aborted) return never();
    throw error;
  }
}

function never(): Promise<never> {
  return new Promise(() => undefined);
}

function watchSockets(): void {
  const connect = Socket.prototype.connect as (...args: unknown[]) => Socket;
  Reflect.set(Socket.prototype, 'connect', function watched(this: Socket, ...args: unknown[]) {
    const life = lives.getStore();
    // A dead process dials nothing. To its owner, the socket connects for ever.
    if (life?.over.aborted) return Object.assign(this, { connecting: true });
    if (life) {
      life.sockets.add(this);
      this.once('close', () => life.sockets.delete(this));
    }
    return connect.apply(this, args);
  });
}

interface SendOptions {
  session?: ClientSession;
}
type Send = (this: unknown, ns: unknown, command: Sent, options?: SendOptions, ...rest: unknown[]) => Promise<unknown>;

function watchCommands(): void {
  const driver: { Connection: { prototype: { command: Send } } } = createRequire(import.meta.url)(
    'mongodb/lib/cmap/connection',
  );
  const send = driver.Connection.prototype.command;
  driver.Connection.prototype.command = function watched(ns, command, options, ...rest) {
    const life = lives.getStore();
    if (options?.session?.inTransaction()) life?.sessions.add(options.session);
    const pass = () => send.call(this, ns, command, options, ...rest);
    return life ? whileAlive(life, () => life.traffic.command(command, pass)) : pass();
  };
}

function watchCalls(): void {
  const call = globalThis.fetch;
  globalThis.fetch = (input, init) => {
    const life = lives.getStore();
    if (!life) return call(input, init);
    const signal = init?.signal ? AbortSignal.any([init.signal, life.over]) : life.over;
    // Node shares the connections and timers of all calls of a process, so they belong to no life. The signal cuts this call's connection.
    const pass = () => lives.run(null, () => call(input, { ...init, signal }));
    return whileAlive(life, () => life.traffic.fetch(pass));
  };
}

type Start = (callback: (...args: unknown[]) => void, ms?: number, ...args: unknown[]) => NodeJS.Timeout;

function watchTimers(): void {
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const start = timers[name] as Start;
    const watched: Start = (callback, ms, ...args) => {
      const timer = start(callback, ms, ...args);
      const life = lives.getStore();
      if (life?.over.aborted) clearTimeout(timer);
      else life?.timers.add(timer);
      return timer;
    };
    Object.defineProperties(watched, Object.getOwnPropertyDescriptors(start));
    for (const holder of [timers, globalThis]) Reflect.set(holder, name, watched);
  }
  const pause = timersPromises.setTimeout;
  timersPromises.setTimeout = (ms, value, options = {}) => {
    const life = lives.getStore();
    if (!life) return pause(ms, value, options);
    const signal = options.signal ? AbortSignal.any([options.signal, life.over]) : life.over;
    return whileAlive(life, () => pause(ms, value, { ...options, signal }));
  };
  // Imports of the module's functions refer to the wrapped ones from now on.
  syncBuiltinESMExports();
}
