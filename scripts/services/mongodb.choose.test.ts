import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { engineFolder, sha256OfFile } from './engine/engine.ts';
import { chooseEngine } from './mongodb.ts';
import { ServiceMissing } from './service.ts';

/** A machine without anything on PATH and with an empty cache of its own. */
function machine(t: Test): NodeJS.ProcessEnv & { PATH: string } {
  const folder = mkdtempSync(path.join(os.tmpdir(), 'examhall-engine-'));
  t.teardown(() => rmSync(folder, { recursive: true, force: true }));
  return { PATH: path.join(folder, 'bin'), XDG_CACHE_HOME: folder };
}

function put(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
  chmodSync(file, 0o755);
}

function putEngine(env: NodeJS.ProcessEnv): string {
  const binary = path.join(engineFolder(env), 'secantusd-rs');
  put(binary, '#!/bin/sh\n');
  put(path.join(engineFolder(env), 'built.json'), JSON.stringify({ binarySha256: sha256OfFile(binary) }));
  return binary;
}

t.test('the best server that the machine has is chosen', async (t) => {
  const env = machine(t);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
  putEngine(env);
  t.strictSame(chooseEngine(env), { name: 'rust', is: 'secantusd-rs 0.5.3-beta.196' });
  put(path.join(env.PATH, 'mongod'), '#!/bin/sh\n');
  t.strictSame(chooseEngine(env), { name: 'mongod', is: 'mongod' });
});

t.test('EXAMHALL_ENGINE names another one, or none that is known', async (t) => {
  const env = machine(t);
  putEngine(env);
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'python' }), { name: 'python' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'mongod' }), { name: 'mongod' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: '' }), { name: 'rust' }, 'set to nothing');
  t.throws(() => chooseEngine({ ...env, EXAMHALL_ENGINE: 'Rust' }), ServiceMissing);
});

t.test('a binary that is not what was built is never run', async (t) => {
  const env = machine(t);
  const binary = putEngine(env);
  writeFileSync(binary, '#!/bin/sh\necho other\n');
  t.match(chooseEngine(env), { name: 'python', advice: /does not hold what `npm run engine` has built/ });
  rmSync(binary);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
});

t.test('an engine of another patch is another engine', async (t) => {
  const env = machine(t);
  const patch = path.join(env.PATH, 'other.patch');
  put(patch, 'other');
  const spec = { crate: '', patched: '', version: '0.5.3-beta.196', binary: 'secantusd-rs', lockSha256: '', patch };
  t.not(engineFolder(env, spec), engineFolder(env));
});
