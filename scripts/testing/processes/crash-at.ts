import { writeSync } from 'node:fs';
import { createRequire } from 'node:module';
import { crashPoints, type Sent } from './crash-points.ts';

/**
 * For tests only, loaded by `node --import <this file>`: the process kills itself with SIGKILL at one point of its run of the command
 * CRASH_COMMAND. CRASH_POINT is the number of the point, from 1; 0 kills the process right after every claim of the command.
 *
 * The product has no hook for this, so the driver's connection and the global fetch are wrapped.
 */
const { CRASH_COMMAND: commandId = '', CRASH_POINT } = process.env;

type Send = (this: unknown, ns: unknown, command: Sent, ...rest: unknown[]) => Promise<unknown>;

const points = crashPoints({ commandId, point: Number(CRASH_POINT) }, (point) => {
  writeSync(2, `${point}\n`);
  process.kill(process.pid, 'SIGKILL');
  return new Promise(() => undefined);
});

const driver: { Connection: { prototype: { command: Send } } } = createRequire(import.meta.url)(
  'mongodb/lib/cmap/connection',
);
const send = driver.Connection.prototype.command;
driver.Connection.prototype.command = function crashing(ns, command, ...rest) {
  return points.command(command, () => send.call(this, ns, command, ...rest));
};

const call = globalThis.fetch;
globalThis.fetch = (...request) => points.fetch(() => call(...request));
