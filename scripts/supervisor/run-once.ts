import { spawn } from 'node:child_process';
import { signalGroup } from './data-folder.ts';
import type { LaunchPlan } from './kept-process.ts';
import type { PrefixedOutput } from './prefixed-output.ts';

/** Time for a stopped command to end before SIGKILL. The rest of the 25 s is for the services. */
const TIMEOUT_MS = 20_000;

/** Runs a command to its end. @throws Error if it fails or if `signal` aborts it */
export async function runOnce(
  output: PrefixedOutput,
  name: string,
  plan: LaunchPlan,
  signal: AbortSignal,
): Promise<void> {
  signal.throwIfAborted();
  const child = spawn(plan.command, plan.args, {
    env: plan.env,
    cwd: plan.cwd,
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  for (const source of [child.stdout, child.stderr]) {
    const sink = output.stream(name);
    source.on('data', (chunk: Buffer) => sink.write(chunk));
    source.on('end', () => sink.end());
  }
  let timer: NodeJS.Timeout | undefined;
  const end = () => {
    const { pid } = child;
    if (pid === undefined) return;
    signalGroup(pid, 'SIGTERM');
    timer = setTimeout(() => signalGroup(pid, 'SIGKILL'), TIMEOUT_MS);
  };
  signal.addEventListener('abort', end, { once: true });
  try {
    const how = await new Promise<string | undefined>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', (code, by) => resolve(code === 0 ? undefined : (by ?? `code ${code}`)));
    });
    if (how !== undefined) throw new Error(`${name} ended with ${how}`);
  } finally {
    signal.removeEventListener('abort', end);
    clearTimeout(timer);
  }
}
