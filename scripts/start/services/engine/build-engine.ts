import { execFileSync } from 'node:child_process';
import { cpSync, existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import path from 'node:path';
import { applyPatch } from 'diff';
import { buildEnvironment, onPath, runTool } from '#scripts/start/services/tools.ts';
import { withLock } from '#scripts/start/supervisor/processes.ts';
import {
  type BuildRecord,
  ENGINE,
  type EngineSpec,
  type EngineState,
  engineFolder,
  engineState,
  RECORD,
  sha256OfFile,
} from './engine.ts';

export interface BuildOptions {
  env: NodeJS.ProcessEnv;
  signal: AbortSignal;
  stage: (name: string) => void;
  compiled: (crates: number, of: number) => void;
}

/** The build cannot begin or has failed. The message is for the user at the terminal. */
export class EngineNotBuilt extends Error {}

/**
 * Builds the engine into the user's cache: fetch, patch, compile, store. Does nothing if it is built already. Of two concurrent builds,
 * the second waits for the first and reuses its result.
 * @throws EngineNotBuilt with the missing tools, or for sources that do not fit
 */
export async function buildEngine(
  options: BuildOptions,
  spec = ENGINE,
): Promise<Extract<EngineState, { kind: 'built' }>> {
  const { env } = options;
  const ready = engineState(env, spec);
  if (ready.kind === 'built') return ready;
  const toolchain = findToolchain(env);
  if ('missing' in toolchain) {
    const lines = toolchain.missing.map((tool) => `  - ${tool}`);
    throw new EngineNotBuilt(['The engine cannot be built here. These are missing:', ...lines].join('\n'));
  }
  const folder = engineFolder(env, spec);
  return withLock(`${folder}.lock`, async () => {
    const since = engineState(env, spec);
    if (since.kind === 'built') return since;
    // Delete what a killed build left in this folder.
    const work = `${folder}.build`;
    rmSync(work, { recursive: true, force: true });
    try {
      const sources = await fetchSources({ work, spec, toolchain }, options);
      patchSources(spec, sources);
      const binary = await compile({ work, spec, toolchain }, sources.crate, options);
      keep(spec, { binary, folder, rustc: toolchain.rustc });
    } finally {
      rmSync(work, { recursive: true, force: true, maxRetries: 3 });
    }
    const built = engineState(env, spec);
    if (built.kind !== 'built') throw new EngineNotBuilt(`${folder} does not contain the binary that was just built`);
    return built;
  });
}

interface Build {
  /** Working folder of the build, which is deleted at its end. */
  work: string;
  spec: EngineSpec;
  toolchain: Toolchain;
}

/**
 * Fetches both crates and copies them. cargo verifies its downloads by the checksums of the registry; `patchSources` verifies the crate's
 * lock file by our own. Returns the folders of the crate with the binary and of the patched one.
 */
async function fetchSources({ work, spec, toolchain }: Build, options: BuildOptions) {
  options.stage('fetching the sources');
  const wish = path.join(work, 'wish');
  const pins = [spec.crate, spec.patched].map((name) => `${name} = "=${spec.version}"`);
  const manifest = ['[package]', 'name = "wish"', 'version = "0.0.0"', 'edition = "2021"', '[dependencies]', ...pins];
  write(path.join(wish, 'Cargo.toml'), manifest.join('\n'));
  write(path.join(wish, 'src/lib.rs'), '');
  const args = ['metadata', '--format-version', '1', '--filter-platform', toolchain.host];
  const { packages } = JSON.parse(await runCargo(toolchain, wish, args, options));
  const copied = (name: string): string => {
    const { manifest_path } = packages.find((found: { name: string }) => found.name === name);
    const copy = path.join(work, name);
    cpSync(path.dirname(manifest_path), copy, { recursive: true });
    return copy;
  };
  return { crate: copied(spec.crate), patched: copied(spec.patched) };
}

/**
 * Patches the crate. Its lock file stays as published, except for the patched crate, which loses source and checksum.
 * @throws EngineNotBuilt if the lock file or the source is not the expected one
 */
function patchSources(spec: EngineSpec, { crate, patched }: { crate: string; patched: string }): void {
  const lock = path.join(crate, 'Cargo.lock');
  if (sha256OfFile(lock) !== spec.lockSha256)
    throw new EngineNotBuilt(`${spec.crate} differs from the reviewed version`);
  const source = path.join(patched, 'src/lib.rs');
  const mended = applyPatch(readFileSync(source, 'utf8'), readFileSync(spec.patch, 'utf8'), { fuzzFactor: 0 });
  if (mended === false) throw new EngineNotBuilt(`${path.basename(spec.patch)} does not fit ${spec.patched}`);
  writeFileSync(source, mended);
  const published = new RegExp(`(name = "${spec.patched}"\nversion = "[^"]+"\n)source = .*\nchecksum = .*\n`);
  writeFileSync(lock, readFileSync(lock, 'utf8').replace(published, '$1'));
  const manifest = path.join(crate, 'Cargo.toml');
  const patch = `\n[patch.crates-io]\n${spec.patched} = { path = ${JSON.stringify(patched)} }\n[workspace]\n`;
  writeFileSync(manifest, readFileSync(manifest, 'utf8') + patch);
}

async function compile({ work, spec, toolchain }: Build, crate: string, options: BuildOptions): Promise<string> {
  options.stage('compiling');
  // The crate requires a newer Rust than it needs.
  const wanted = ['build', '--release', '--locked', '--ignore-rust-version', '--bin', spec.binary];
  const args = [...wanted, '--target-dir', path.join(work, 'target'), '--message-format', 'json-render-diagnostics'];
  const said = await runCargo(toolchain, crate, args, options);
  for (const line of said.split('\n').filter((text) => text.startsWith('{'))) {
    const { executable } = JSON.parse(line);
    if (typeof executable === 'string' && existsSync(executable)) return executable;
  }
  throw new EngineNotBuilt('cargo built no binary');
}

function runCargo(
  { cargo, selection }: Toolchain,
  cwd: string,
  args: string[],
  options: BuildOptions,
): Promise<string> {
  const bar = { CARGO_TERM_PROGRESS_WHEN: 'always', CARGO_TERM_PROGRESS_WIDTH: '80', CARGO_TERM_COLOR: 'never' };
  const env = { ...buildEnvironment(options.env), ...selection, ...bar };
  /** cargo draws a bar such as `Building [==>   ] 34/290: bson, zstd`. */
  const heard = (text: string) => {
    const last = [...text.matchAll(/\] (\d+)\/(\d+)/g)].at(-1);
    if (last !== undefined) options.compiled(Number(last[1]), Number(last[2]));
  };
  return runTool(`cargo ${args[0]}`, { command: cargo, args, env, cwd, signal: options.signal, heard });
}

/** Stores binary and record by one rename, so that the folder is complete even after a kill. */
function keep(spec: EngineSpec, { binary, folder, rustc }: { binary: string; folder: string; rustc: string }): void {
  const fresh = `${folder}.new`;
  rmSync(fresh, { recursive: true, force: true });
  mkdirSync(fresh, { recursive: true });
  cpSync(binary, path.join(fresh, spec.binary));
  const record: BuildRecord = {
    crate: spec.crate,
    version: spec.version,
    binarySha256: sha256OfFile(binary),
    rustc,
    builtAt: new Date().toISOString(),
  };
  writeFileSync(path.join(fresh, RECORD), `${JSON.stringify(record, null, 2)}\n`);
  rmSync(folder, { recursive: true, force: true });
  renameSync(fresh, folder);
}

function write(file: string, text: string): void {
  mkdirSync(path.dirname(file), { recursive: true });
  writeFileSync(file, text);
}

/** The version that CI builds the engine with. Where rustup has installed it, it is used whatever the default of rustup is. */
export const RUST_VERSION = '1.95.0';
/** The crate requires 1.98, but the versions from this one on have built it. */
const OLDEST_RUST = { major: 1, minor: 95 };

const C_COMPILER =
  'a C compiler: cc, gcc or clang (Debian: apt-get install build-essential; macOS: xcode-select --install)';
const CMAKE = 'cmake (Debian: apt-get install cmake; macOS: brew install cmake)';
const MAKE = 'make or ninja (Debian: apt-get install build-essential; macOS: xcode-select --install)';
const RUST = `Rust ${OLDEST_RUST.major}.${OLDEST_RUST.minor} or later, with cargo (https://rustup.rs)`;

type Toolchain = Exclude<ReturnType<typeof checkRust>, { missing: string }>;

/** Finds the tools on PATH. `missing` has one line for each unusable tool, with the way to install it. */
export function findToolchain(env: NodeJS.ProcessEnv): Toolchain | { missing: string[] } {
  const rust = findRust(env);
  const tools = [
    'missing' in rust ? rust.missing : null,
    env.CC || onPath(['cc', 'gcc', 'clang'], env.PATH) ? null : C_COMPILER,
    onPath(['cmake'], env.PATH) ? null : CMAKE,
    onPath(['make', 'gmake', 'ninja'], env.PATH) ? null : MAKE,
  ].filter((tool) => tool !== null);
  return 'missing' in rust || tools.length > 0 ? { missing: tools } : rust;
}

function findRust(env: NodeJS.ProcessEnv): Toolchain | { missing: string } {
  const cargo = onPath(['cargo'], env.PATH);
  const rustc = onPath(['rustc'], env.PATH);
  if (cargo === undefined || rustc === undefined) return { missing: RUST };
  // A Rust without rustup ignores the first choice.
  const choices = env.RUSTUP_TOOLCHAIN === undefined ? [{ RUSTUP_TOOLCHAIN: RUST_VERSION }, {}] : [{}];
  for (const selection of choices) {
    const options = { env: { ...buildEnvironment(env), ...selection }, timeout: 30_000 };
    try {
      // A version manager puts both on PATH even if no version is installed, so run them.
      execFileSync(cargo, ['--version'], { ...options, stdio: 'ignore' });
      const said = execFileSync(rustc, ['-vV'], { ...options, encoding: 'utf8', stdio: 'pipe' });
      return checkRust({ cargo, selection }, said);
    } catch {
      // rustup has not installed that version, or no version at all.
    }
  }
  return { missing: `${RUST}: the one on PATH does not run` };
}

/**
 * Checks the version of Rust. `said` is the output of `rustc -vV`, and `selection` the environment in which cargo is that version. Returns
 * them with the platform that Rust compiles for, such as `x86_64-unknown-linux-gnu`, and with a name such as `rustc 1.95.0 (…)`.
 */
export function checkRust(found: { cargo: string; selection: { RUSTUP_TOOLCHAIN?: string } }, said: string) {
  const [, major = '0', minor = '0'] = /^release: (\d+)\.(\d+)/m.exec(said) ?? [];
  const [, host] = /^host: (\S+)/m.exec(said) ?? [];
  const isOld = Number(major) === OLDEST_RUST.major && Number(minor) < OLDEST_RUST.minor;
  if (host === undefined || isOld || Number(major) < OLDEST_RUST.major)
    return { missing: `${RUST}: the one on PATH is ${major}.${minor}` };
  return { ...found, host, rustc: said.split('\n')[0] ?? '' };
}
