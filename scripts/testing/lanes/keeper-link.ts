import { spawn } from 'node:child_process';
import { createHash } from 'node:crypto';
import { closeSync, mkdirSync, openSync, readFileSync } from 'node:fs';
import { connect } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout as delay } from 'node:timers/promises';
import type { ProcessIdentity } from '#scripts/supervisor/process-identity.ts';

/** The keeper's reply to the id of a lane. */
export type LaneReply = ({ readonly kind: 'ready' } & ReadyLane) | { readonly kind: 'failed'; readonly fault: string };

/** The environment of a lane's next file, and what its stores reported while they started. */
export interface ReadyLane {
  readonly env: NodeJS.ProcessEnv;
  readonly said: readonly string[];
}

const KEEPER = path.join(import.meta.dirname, 'keeper.ts');
const ROOT = path.resolve(import.meta.dirname, '../../..');
const START_TIMEOUT_MS = 60_000;
const RETRY_MS = 50;

/** The folder of one run of tap: the keeper's socket and log, and the pids that tests record. It exists as long as the keeper does. */
export function keeperFolder(runner: ProcessIdentity): string {
  const name = createHash('sha256').update(`${runner.pid} ${runner.startedAt}`).digest('hex').slice(0, 16);
  return path.join(os.tmpdir(), `examhall-lanes-${name}`);
}

/** Returns the path of the keeper's socket. */
export const socketIn = (folder: string): string => path.join(folder, 'keeper.sock');
/** Returns the folder in which tests record the pids of their processes. */
export const pidsIn = (folder: string): string => path.join(folder, 'pids');
const logIn = (folder: string): string => path.join(folder, 'keeper.log');

/**
 * Requests a prepared lane from the keeper of this run. The first request starts the keeper.
 * @throws Error if the keeper does not start, or cannot start the stores
 */
export async function prepareLane(runner: ProcessIdentity, lane: string): Promise<ReadyLane> {
  const folder = keeperFolder(runner);
  if (isFirst(folder)) startKeeper(folder, runner);
  const giveUpAt = performance.now() + START_TIMEOUT_MS;
  for (;;) {
    const reply = await ask(socketIn(folder), lane);
    if (reply?.kind === 'failed') throw new Error(reply.fault);
    if (reply?.kind === 'ready') return reply;
    if (performance.now() > giveUpAt) throw new Error(`the keeper of the lanes does not answer: ${logOf(folder)}`);
    await delay(RETRY_MS);
  }
}

/** Creates the keeper's folder, which is the lock: among files that start at the same time, exactly one returns true and starts the keeper. */
function isFirst(folder: string): boolean {
  try {
    mkdirSync(folder, { mode: 0o700 });
    return true;
  } catch (error) {
    if (error instanceof Error && 'code' in error && error.code === 'EEXIST') return false;
    throw error;
  }
}

/** Starts the keeper without the test file's pipes: tap waits for the end of every pipe before it reports the file. */
function startKeeper(folder: string, runner: ProcessIdentity): void {
  const log = openSync(logIn(folder), 'a');
  const args = [KEEPER, folder, String(runner.pid), runner.startedAt];
  spawn(process.execPath, args, { cwd: ROOT, detached: true, stdio: ['ignore', log, log] }).unref();
  closeSync(log);
}

/** Sends the id of a lane to the keeper and returns the reply, or undefined while no keeper listens. */
async function ask(socketPath: string, lane: string): Promise<LaneReply | undefined> {
  const socket = connect(socketPath);
  socket.end(`${lane}\n`);
  try {
    const reply = await text(socket);
    return reply === '' ? undefined : (JSON.parse(reply) as LaneReply);
  } catch (error) {
    // An error with a code comes from the system: the socket does not exist yet, or its keeper has ended.
    if (error instanceof Error && 'code' in error) return undefined;
    throw error;
  }
}

function logOf(folder: string): string {
  try {
    return readFileSync(logIn(folder), 'utf8').trim() || 'it wrote nothing';
  } catch {
    return 'it has no log';
  }
}
