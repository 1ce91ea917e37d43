import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { openReceiver } from '#scripts/sandbox/local-server.ts';
import { openReply } from '#testing/clients/call.ts';
import type { Teardown } from '#testing/stores/open-test-mongo.ts';
import type { Example } from './page.ts';

const ROOT = path.resolve(import.meta.dirname, '../../..');
/** Address of the cluster in every page. */
const PAGE_ORIGIN = 'http://127.0.0.1:3000';
/** Value of $RANDOM in every example, so that a page shows the names that a run makes. */
const RANDOM = 20260;
/** Functions and variables last over the blocks. `curl --max-time` ends with 28, and a pipe that `head` closes with 23. */
const DRIVER = `
set -euo pipefail
unset RANDOM
RANDOM=${RANDOM}
curl() {
  local code=0
  command curl "$@" || code=$?
  [ $code -eq 0 ] || [ $code -eq 23 ] || [ $code -eq 28 ] || return $code
}
while IFS= read -r block; do
  source "$block" < /dev/null > "$block.out"
  echo done >&3
done
`;

/**
 * Starts one bash in a new folder that holds the project's examples: the terminal of a reader, until the end of the test. Returns a function
 * that runs a block and returns what it prints. Blocks call `origin` where they name the address of the cluster.
 * @throws Error with the output if a command of a block fails
 */
export function openPageShell(t: Teardown, origin: string): (script: string, name: string) => Promise<string> {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-docs-'));
  const [work, files] = [path.join(folder, 'work'), path.join(folder, 'files')];
  for (const one of [work, files]) mkdirSync(one);
  symlinkSync(path.join(ROOT, 'examples'), path.join(work, 'examples'));
  const child = spawn('bash', ['-c', DRIVER], {
    cwd: work,
    env: { PATH: `${path.dirname(process.execPath)}:${process.env.PATH}`, HOME: folder, LANG: 'C.UTF-8' },
    stdio: ['pipe', 'ignore', 'pipe', 'pipe'],
  });
  const ended = once(child, 'close');
  const [input, , errorOutput, done] = child.stdio as unknown as [Writable, null, Readable, Readable];
  let errors = '';
  errorOutput.setEncoding('utf8').on('data', (text: string) => (errors += text));
  // A failed block ends bash, and the next one finds the pipe closed.
  input.on('error', () => undefined);
  const end = () => {
    child.kill('SIGKILL');
    rmSync(folder, { recursive: true, force: true, maxRetries: 3 });
  };
  process.once('exit', end);
  t.teardown(async () => {
    child.kill('SIGKILL');
    await ended;
    process.off('exit', end);
    end();
  });

  return async (script, name) => {
    const file = path.join(folder, name.replaceAll(/\W+/g, '-'));
    writeFileSync(file, script.replaceAll(PAGE_ORIGIN, origin).replaceAll('/tmp/', `${files}/`));
    errors = '';
    const isDone = once(done, 'data');
    input.write(`${file}\n`);
    const first = await Promise.race([isDone.then(() => 'done'), ended.then(() => 'ended')]);
    const output = readFileSync(`${file}.out`, 'utf8');
    if (first === 'ended') throw new Error(`${name} failed:\n${errors}${output}`);
    return output;
  };
}

export interface RecordedCall {
  readonly method: string;
  readonly target: string;
  readonly sent: string;
  /** Status of the reply; 0 before it has come. */
  status: number;
  headers: Readonly<Record<string, string | undefined>>;
  /** Body of the reply as far as it has come. */
  text: string;
  // biome-ignore lint/suspicious/noExplicitAny: replies are compared with pages, field by field
  readonly json: any;
}

/** An example that ran. */
export interface ExampleRun {
  readonly step: Example;
  readonly calls: readonly RecordedCall[];
  readonly output: string;
}

/**
 * Opens a server that forwards each call to `origin`, streams too, until the end of the test. `take` returns the calls since its last call, in
 * the order of their arrival.
 */
export async function openRecordingProxy(t: Teardown, origin: string) {
  const calls: RecordedCall[] = [];
  const url = await openReceiver(t, async ({ method, path: target, headers, bytes, text }, response) => {
    const call: RecordedCall = {
      method,
      target,
      sent: text,
      status: 0,
      headers: {},
      text: '',
      get json() {
        return this.headers['content-type']?.startsWith('application/json') ? JSON.parse(this.text) : undefined;
      },
    };
    calls.push(call);
    const left = new AbortController();
    response.on('close', () => left.abort());
    const body = bytes.length > 0 ? bytes : undefined;
    // A client whose call fails sees a cut connection, as it would without the proxy.
    const reply = await openReply(origin, { method, target, headers, body, signal: left.signal }).catch(() => null);
    if (reply === null) return void response.destroy();
    call.status = reply.statusCode ?? 0;
    call.headers = reply.headers as RecordedCall['headers'];
    response.writeHead(call.status, reply.rawHeaders);
    const decoder = new TextDecoder();
    reply.on('data', (chunk: Buffer) => (call.text += decoder.decode(chunk, { stream: true })));
    reply.on('error', () => response.destroy()).pipe(response);
  });
  return { url, take: () => calls.splice(0) };
}
