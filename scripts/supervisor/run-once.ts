import { spawn } from 'node:child_process';
import { signalGroup } from './data-folder.ts';
import type { LaunchPlan } from './kept-process.ts';
import type { PrefixedOutput } from './prefixed-output.ts';

/** What a stopped command has for leaving in order; the rest of the 25 s belongs to the services. */
const PATIENCE_MS = 20_000;

/** Runs a command to its end. @throws Error when it fails, or when `signal` ends it. */
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
  let patience: NodeJS.Timeout | undefined;
  const end = () => {
    const { pid } = child;
    if (pid === undefined) return;
    signalGroup(pid, 'SIGTERM');
    patience = setTimeout(() => signalGroup(pid, 'SIGKILL'), PATIENCE_MS);
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
    clearTimeout(patience);
  }
}
