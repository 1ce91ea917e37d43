import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import t, { type Test } from 'tap';
import { openScratchFolder } from '#testing/scratch-folder.ts';
import { until } from '#testing/until.ts';
import { buildEngine, checkRust, findToolchain, RUST_VERSION } from './build-engine.ts';
import { type EngineSpec, engineFolder, engineState, sha256OfFile } from './engine.ts';

const LOCK = `[[package]]
name = "thing"
version = "1.0.0"

[[package]]
name = "thing-storage"
version = "1.0.0"
source = "somewhere"
checksum = "abc"
dependencies = []
`;
const PATCH = `A word before it.

--- a/src/lib.rs
+++ b/src/lib.rs
@@ -1,2 +1,2 @@
 fn first() {}
-fn broken() {}
+fn mended() {}
`;

/**
 * Sets up a machine whose cargo is a script with two small crates. Its "binary" is a concatenation of the sources, so that a test can
 * read them. `build` is the shell command that replaces the compilation.
 */
function machine(t: Test, build = 'cat ../thing-storage/src/lib.rs Cargo.lock Cargo.toml > "$target/thing"') {
  const { root, put } = openScratchFolder(t);
  for (const name of ['cc', 'cmake', 'make']) put(`bin/${name}`, '#!/bin/sh\n');
  put('bin/rustc', '#!/bin/sh\necho "rustc 1.95.0 (test)"; echo "release: 1.95.0"; echo "host: here"\n');
  const crates = ['thing', 'thing-storage'].map((name) => ({
    name,
    manifest_path: path.join(root, name, 'Cargo.toml'),
  }));
  put('metadata.json', JSON.stringify({ packages: crates }));
  put(
    'bin/cargo',
    `#!/bin/sh
case "$1" in
metadata) cat ${root}/metadata.json;;
build)
  root=${root}; target=$(dirname "$PWD")/target; mkdir -p "$target"
  echo "    Building [=>   ] 1/2: thing" >&2
  ${build}
  echo "{\\"executable\\":\\"$target/thing\\"}"
esac
`,
  );
  put('thing/Cargo.toml', '[package]\nname = "thing"\n');
  put('thing/Cargo.lock', LOCK);
  put('thing-storage/src/lib.rs', 'fn first() {}\nfn broken() {}\n');
  const spec: EngineSpec = {
    crate: 'thing',
    patched: 'thing-storage',
    version: '1.0.0',
    binary: 'thing',
    lockSha256: sha256OfFile(path.join(root, 'thing/Cargo.lock')),
    patch: put('thing.patch', PATCH),
  };
  const env = { PATH: `${root}/bin:/usr/bin:/bin`, XDG_CACHE_HOME: path.join(root, 'cache') };
  const stages: string[] = [];
  const stop = new AbortController();
  const options = {
    env,
    signal: stop.signal,
    stage: (name: string) => stages.push(name),
    compiled: (crates: number, of: number) => stages.push(`${crates}/${of}`),
  };
  return {
    root,
    env,
    spec,
    stages,
    stop,
    put,
    build: (changes: Partial<EngineSpec> = {}) => buildEngine(options, { ...spec, ...changes }),
  };
}

/** Returns the entries of the cache after a build. */
const left = (env: { XDG_CACHE_HOME: string }): string[] =>
  existsSync(env.XDG_CACHE_HOME) ? readdirSync(path.join(env.XDG_CACHE_HOME, 'examhall')) : [];

t.test(
  'npm run engine patches and compiles the published sources and stores the binary with its checksum',
  async (t) => {
    const { env, spec, stages, build } = machine(t);
    const { binary, record } = await build();
    const compiled = readFileSync(binary, 'utf8');
    t.match(compiled, 'fn mended() {}', 'the patch');
    t.notMatch(compiled, 'fn broken() {}');
    t.match(
      compiled,
      'name = "thing-storage"\nversion = "1.0.0"\ndependencies',
      'the lock file no longer names the published crate',
    );
    t.match(compiled, '[patch.crates-io]\nthing-storage = { path = ');
    t.match(record, {
      crate: 'thing',
      version: '1.0.0',
      rustc: 'rustc 1.95.0 (test)',
      binarySha256: sha256OfFile(binary),
    });
    t.strictSame(stages, ['fetching the sources', 'compiling', '1/2']);
    t.strictSame(left(env), [path.basename(engineFolder(env, spec))], 'sources and lock are deleted');
  },
);

t.test('a later and a concurrent build of the engine reuse the first', async (t) => {
  const { stages, build } = machine(t);
  const [one, other] = await Promise.all([build(), build()]);
  t.strictSame(one, other);
  t.strictSame(await build(), one);
  t.equal(stages.filter((stage) => stage === 'compiling').length, 1);
});

t.test('a changed engine binary is built again', async (t) => {
  const { env, spec, build } = machine(t);
  const { binary } = await build();
  writeFileSync(binary, 'other');
  t.match(engineState(env, spec), { kind: 'damaged' });
  await build();
  t.match(engineState(env, spec), { kind: 'built' });
});

t.test('the engine build refuses sources that differ from the reviewed ones, without compiling', async (t) => {
  const { env, stages, build, put } = machine(t);
  await t.rejects(build({ lockSha256: 'f'.repeat(64) }), /thing differs from the reviewed version/);
  put('thing-storage/src/lib.rs', 'fn first() {}\nfn rewritten() {}\n');
  await t.rejects(build(), /thing\.patch does not fit thing-storage/);
  t.notOk(stages.includes('compiling'));
  t.strictSame(left(env), []);
});

t.test("a failed engine build reports cargo's last lines and leaves no files", async (t) => {
  const { env, build } = machine(t, 'echo "error: no space left" >&2; exit 101');
  await t.rejects(build(), /cargo build failed:\nerror: no space left/);
  t.strictSame(left(env), []);
});

t.test('a stopped engine build kills its compilers and leaves no files', async (t) => {
  const { root, env, stop, build } = machine(t, 'sleep 600 & echo $! > "$root/compiler"; wait');
  const building = build();
  const note = path.join(root, 'compiler');
  const pid = Number(await until('a compiler runs', () => existsSync(note) && readFileSync(note, 'utf8').trim()));
  stop.abort();
  await t.rejects(building);
  await until('the compiler has ended', () => !isAlive(pid));
  t.strictSame(left(env), []);
});

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}

const said = (release: string) =>
  `rustc ${release} (abc 2026-01-01)\nrelease: ${release}\nhost: x86_64-unknown-linux-gnu\n`;

const FOUND = { cargo: '/bin/cargo', selection: {} };

t.test('the engine toolchain names every missing tool and how to install it', async (t) => {
  const found = findToolchain({ PATH: '' });
  t.match(found, { missing: [/^Rust 1\.95 or later/, /^a C compiler/, /^cmake/, /^make or ninja/] });
  t.match(findToolchain({ PATH: '', CC: 'tcc' }), { missing: [/^Rust/, /^cmake/, /^make/] }, 'CC names a compiler');
});

t.test('the engine toolchain treats tools that do not run as missing', async (t) => {
  const { root: folder, put } = openScratchFolder(t);
  for (const name of ['cargo', 'rustc', 'cc', 'cmake', 'make']) put(name, '#!/bin/sh\nexit 1\n');
  t.match(findToolchain({ PATH: folder }), { missing: [/^Rust .* does not run$/] });
});

t.test('the engine toolchain accepts Rust by the version that rustc reports', async (t) => {
  for (const release of ['1.95.0', '1.98.1', '2.0.0', '1.95.0-nightly']) {
    const toolchain = {
      cargo: '/bin/cargo',
      host: 'x86_64-unknown-linux-gnu',
      rustc: `rustc ${release} (abc 2026-01-01)`,
      selection: {},
    };
    t.strictSame(checkRust(FOUND, said(release)), toolchain);
  }
  for (const release of ['1.94.1', '1.9.0', '0.99.0', ''])
    t.match(checkRust(FOUND, said(release)), { missing: /^Rust/ });
});

t.test(
  'the engine toolchain selects its own version of rustup, and accepts a newer one where that is missing',
  async (t) => {
    const { root: folder, put } = openScratchFolder(t);
    const install = (name: string, script: string) => put(name, `#!/bin/sh\n${script}\n`);
    for (const name of ['cc', 'cmake', 'make']) install(name, '');
    const rustup = (installed: string) => {
      for (const name of ['cargo', 'rustc'])
        install(
          name,
          `version=\${RUSTUP_TOOLCHAIN:-1.99.1}
case " ${installed} " in *" $version "*) ;; *) exit 1 ;; esac
printf 'rustc %s (abc)\\nrelease: %s\\nhost: a-host\\n' "$version" "$version"`,
        );
    };
    const found = (env: NodeJS.ProcessEnv = {}) => findToolchain({ PATH: `${folder}:/usr/bin:/bin`, ...env });
    rustup(`1.99.1 ${RUST_VERSION}`);
    const own = { rustc: `rustc ${RUST_VERSION} (abc)`, selection: { RUSTUP_TOOLCHAIN: RUST_VERSION } };
    t.match(found(), own);
    t.match(found({ RUSTUP_TOOLCHAIN: '1.99.1' }), { rustc: 'rustc 1.99.1 (abc)' });
    rustup('1.99.1');
    t.match(found(), { rustc: 'rustc 1.99.1 (abc)', selection: {} });
    rustup('');
    t.match(found(), { missing: [/^Rust/] });
  },
);
