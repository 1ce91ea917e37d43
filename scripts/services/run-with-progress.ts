import { spawn } from 'node:child_process';

export type Say = (line: string) => void;

/**
 * Runs a long command and reports its beginning and its end through `say`.
 * @throws Error with the last lines of its output if it fails
 */
export async function runWithProgress(
  { say, env }: { say: Say; env: NodeJS.ProcessEnv },
  what: string,
  command: string,
  args: readonly string[],
): Promise<void> {
  const began = performance.now();
  say(`${what} …`);
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env });
  let output = '';
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (chunk: Buffer) => {
      output = (output + chunk.toString()).slice(-8_192);
    });
  }
  const end = () => child.kill('SIGTERM');
  process.once('exit', end);
  const code = await new Promise<number>((resolve) => {
    child.on('error', (error) => {
      output += error.message;
      resolve(127);
    });
    child.on('close', (exitCode) => resolve(exitCode ?? 1));
  });
  process.off('exit', end);
  if (code !== 0) throw new Error(`${what} failed:\n${output.trim().split('\n').slice(-12).join('\n')}`);
  say(`${what}: done in ${((performance.now() - began) / 1_000).toFixed(1)} s`);
}
