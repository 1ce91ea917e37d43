import { spawn } from 'node:child_process';
import { signalGroup } from '#scripts/supervisor/data-folder.ts';
import { buildEnvironment } from '../tool-environment.ts';
import type { Toolchain } from './toolchain.ts';

interface CargoRun {
  args: readonly string[];
  cwd: string;
  env: NodeJS.ProcessEnv;
  /** Kills cargo and every compiler that it has started. */
  signal: AbortSignal;
  compiled: (crates: number, of: number) => void;
}

/** cargo draws a bar such as `Building [==>   ] 34/290: bson, zstd`. */
const BAR = /\] (\d+)\/(\d+)/g;
/** Characters at the end of cargo's messages that are stored for an error. */
const TAIL = 8_192;
/** Lines of cargo's messages that an error quotes. */
const PRINTED_LINES = 15;

/**
 * Runs cargo and returns its standard output.
 * @throws Error with cargo's last lines if it fails
 */
export async function runCargo(
  { cargo, selection }: Toolchain,
  { args, cwd, env, signal, compiled }: CargoRun,
): Promise<string> {
  signal.throwIfAborted();
  const bar = { CARGO_TERM_PROGRESS_WHEN: 'always', CARGO_TERM_PROGRESS_WIDTH: '80', CARGO_TERM_COLOR: 'never' };
  const child = spawn(cargo, args, {
    cwd,
    env: { ...buildEnvironment(env), ...selection, ...bar },
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const kill = () => void (child.pid !== undefined && signalGroup(child.pid, 'SIGKILL'));
  signal.addEventListener('abort', kill, { once: true });
  process.once('exit', kill);
  let output = '';
  let messages = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    messages = (messages + text).slice(-TAIL);
    const last = [...text.matchAll(BAR)].at(-1);
    if (last !== undefined) compiled(Number(last[1]), Number(last[2]));
  });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    signal.throwIfAborted();
    if (code !== 0) throw new Error(`cargo ${args[0]} failed:\n${lastLines(messages)}`);
    return output;
  } finally {
    signal.removeEventListener('abort', kill);
    process.off('exit', kill);
  }
}

/** Returns the last messages without the lines of the progress bar, which is redrawn over itself. */
function lastLines(messages: string): string {
  const lines = messages.split(/[\r\n]+/).map((line) => line.trimEnd());
  return lines
    .filter((line) => line !== '' && !/^\s*(Building|Fetch|Downloading) \[/.test(line))
    .slice(-PRINTED_LINES)
    .join('\n');
}
