import { execFileSync } from 'node:child_process';
import { buildEnvironment, onPath } from '#scripts/start/services/tools.ts';

/** The tools that build the engine. */
export interface Toolchain {
  cargo: string;
  /** The platform that Rust compiles for, such as `x86_64-unknown-linux-gnu`. */
  host: string;
  /** `rustc 1.95.0 (…)` */
  rustc: string;
  /** Environment in which cargo is that version. */
  selection: { RUSTUP_TOOLCHAIN?: string };
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

/** Checks the version of Rust. `said` is the output of `rustc -vV`. */
export function checkRust(
  found: Pick<Toolchain, 'cargo' | 'selection'>,
  said: string,
): Toolchain | { missing: string } {
  const [, major = '0', minor = '0'] = /^release: (\d+)\.(\d+)/m.exec(said) ?? [];
  const [, host] = /^host: (\S+)/m.exec(said) ?? [];
  const isOld = Number(major) === OLDEST_RUST.major && Number(minor) < OLDEST_RUST.minor;
  if (host === undefined || isOld || Number(major) < OLDEST_RUST.major)
    return { missing: `${RUST}: the one on PATH is ${major}.${minor}` };
  return { ...found, host, rustc: said.split('\n')[0] ?? '' };
}
