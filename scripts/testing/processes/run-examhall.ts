import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { text } from 'node:stream/consumers';
import type { TestMongo } from '#testing/stores/open-test-mongo.ts';

const SCRIPT = path.resolve(import.meta.dirname, '../../../scripts/examhall.ts');

/** Runs the operator command as a shell would. `typed` is its standard input; `said` joins stdout and stderr. */
export async function runExamhall(
  mongo: Pick<TestMongo, 'url' | 'database'>,
  args: readonly string[],
  options: { typed?: string | Buffer; env?: NodeJS.ProcessEnv } = {},
): Promise<{ code: number; said: string; out: string; err: string }> {
  const place = { MONGODB_URL: mongo.url, MONGODB_DATABASE: mongo.database, USER: 'an' };
  const child = spawn(process.execPath, [SCRIPT, ...args], {
    env: { PATH: process.env.PATH, ...place, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // Most commands end without reading their input, so that the pipe breaks.
  child.stdin.on('error', () => undefined).end(options.typed ?? '');
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code, said: out + err, out, err };
}
