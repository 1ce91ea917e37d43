import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { runCommandLine } from '#scripts/examhall/examhall.ts';
import type { TestMongo } from '#testing/stores/open-test-mongo.ts';

const SCRIPT = path.resolve(import.meta.dirname, '../../examhall/examhall.ts');

type Place = Pick<TestMongo, 'url' | 'database'>;

interface CommandOptions {
  typed?: string | Buffer;
  env?: NodeJS.ProcessEnv;
  terminal?: boolean;
  interrupted?: AbortSignal;
  /** Is called with all that the command has printed so far. */
  heard?: (out: string) => unknown;
}

/** Runs the operator command as a shell would, for tests of its streams and its exit code. */
export async function runExamhall(mongo: Place, args: readonly string[], options: CommandOptions = {}) {
  const child = spawn(process.execPath, [SCRIPT, ...args], {
    env: envOf(mongo, options),
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  // Most commands end without reading their input, so that the pipe breaks.
  child.stdin.on('error', () => undefined).end(options.typed ?? '');
  const [out, err, [code]] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
  return { code: code as number, said: out + err, out, err };
}

/** Runs the operator command inside this process, which spares its start: half a second of processor time. */
export async function callExamhall(mongo: Place, args: readonly string[], options: CommandOptions = {}) {
  const output = new PassThrough();
  const errors = Object.assign(new PassThrough(), { isTTY: options.terminal === true });
  let heard = '';
  output.on('data', (chunk) => {
    heard += chunk;
    options.heard?.(heard);
  });
  const input = Readable.from([Buffer.from(options.typed ?? '')]);
  const { interrupted = new AbortController().signal } = options;
  const around = { env: envOf(mongo, options), input, output, errors, interrupted };
  const running = runCommandLine(args, around).finally(() => {
    output.end();
    errors.end();
  });
  const [out, err, code] = await Promise.all([text(output), text(errors), running]);
  return { code, said: out + err, out, err };
}

function envOf({ url, database }: Place, { env }: CommandOptions): NodeJS.ProcessEnv {
  return { PATH: process.env.PATH, MONGODB_URL: url, MONGODB_DATABASE: database, USER: 'an', ...env };
}
