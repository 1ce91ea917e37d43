import { readdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import { isAlive, type ProcessIdentity } from '#scripts/supervisor/process-identity.ts';
import { type LaneReply, pidsIn, socketIn } from './keeper-link.ts';
import { createLane, type Lane } from './lane.ts';

/**
 * Program: owns the stores of all lanes of one run of tap, because they outlive the test files. It starts with the first file
 * that needs a store and ends with the runner, however the runner ends. Arguments: its folder, the runner's pid and start.
 */
const [folder = '', pid = '', startedAt = ''] = process.argv.slice(2);
const runner: ProcessIdentity = { pid: Number(pid), startedAt };
const WATCH_MS = 250;

const lanes = new Map<string, { lane: Lane; said: string[] }>();
const server = createServer({ allowHalfOpen: true }, (socket) => {
  socket.on('error', () => socket.destroy());
  void answer(socket);
});
server.listen(socketIn(folder));
const watch = setInterval(() => {
  if (isAlive(runner)) return;
  clearInterval(watch);
  void end();
}, WATCH_MS);

async function answer(socket: Socket): Promise<void> {
  const reply = await prepared((await text(socket)).trim());
  socket.end(JSON.stringify(reply));
}

async function prepared(id: string): Promise<LaneReply> {
  const found = lanes.get(id) ?? openLane(id);
  try {
    const env = await found.lane.prepare();
    return { kind: 'ready', env, said: found.said.splice(0) };
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    return { kind: 'failed', fault: [...found.said.splice(0), reason].join('\n') };
  }
}

function openLane(id: string): { lane: Lane; said: string[] } {
  const said: string[] = [];
  const opened = { lane: createLane((line) => said.push(line)), said };
  lanes.set(id, opened);
  return opened;
}

/** Kills the processes first: some are clients of the stores. Deletes the folder last, because `npm test` waits for its deletion. */
async function end(): Promise<void> {
  killLeftovers();
  await Promise.allSettled([...lanes.values()].map(({ lane }) => lane.close()));
  rmSync(folder, { recursive: true, force: true });
  // Stores that are still starting are killed by their own exit handler.
  process.exit(0);
}

/** Kills the processes of tests that were killed themselves, for instance by their time limit. */
function killLeftovers(): void {
  for (const identity of recordedProcesses()) {
    if (identity !== null && isAlive(identity)) process.kill(identity.pid, 'SIGKILL');
  }
}

function recordedProcesses(): (ProcessIdentity | null)[] {
  try {
    const names = readdirSync(pidsIn(folder));
    return names.map((name) => JSON.parse(readFileSync(path.join(pidsIn(folder), name), 'utf8')));
  } catch {
    // No test has recorded a process.
    return [];
  }
}
