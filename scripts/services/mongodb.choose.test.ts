import { chmodSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import t, { type Test } from 'tap';
import { engineFolder, sha256OfFile } from './engine/engine.ts';
import { chooseEngine } from './mongodb.ts';
import { ServiceMissing } from './service.ts';

/** Returns the environment of a machine with an empty PATH and an empty cache. */
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

t.test('chooseEngine chooses the best MongoDB server of the machine', async (t) => {
  const env = machine(t);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
  putEngine(env);
  t.strictSame(chooseEngine(env), { name: 'rust', is: 'secantusd-rs 0.5.3-beta.196' });
  put(path.join(env.PATH, 'mongod'), '#!/bin/sh\n');
  t.strictSame(chooseEngine(env), { name: 'mongod', is: 'mongod' });
});

t.test('chooseEngine follows EXAMHALL_ENGINE and refuses unknown names', async (t) => {
  const env = machine(t);
  putEngine(env);
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'python' }), { name: 'python' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: 'mongod' }), { name: 'mongod' });
  t.match(chooseEngine({ ...env, EXAMHALL_ENGINE: '' }), { name: 'rust' }, 'empty');
  t.throws(() => chooseEngine({ ...env, EXAMHALL_ENGINE: 'Rust' }), ServiceMissing);
});

t.test('chooseEngine never chooses an engine binary that differs from the built one', async (t) => {
  const env = machine(t);
  const binary = putEngine(env);
  writeFileSync(binary, '#!/bin/sh\necho other\n');
  t.match(chooseEngine(env), { name: 'python', advice: /does not contain the binary that `npm run engine` built/ });
  rmSync(binary);
  t.match(chooseEngine(env), { name: 'python', advice: /npm run engine/ });
});

t.test('an engine with another patch has another folder', async (t) => {
  const env = machine(t);
  const patch = path.join(env.PATH, 'other.patch');
  put(patch, 'other');
  const spec = { crate: '', patched: '', version: '0.5.3-beta.196', binary: 'secantusd-rs', lockSha256: '', patch };
  t.not(engineFolder(env, spec), engineFolder(env));
});
