import { spawn } from 'node:child_process';
import { accessSync, constants, statSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { signalGroup } from '#scripts/start/supervisor/processes.ts';

/** Tools of other publishers: where they are, with what environment they run, and how. */

/** Returns the folder for pinned binaries: EXAMHALL_TOOLS_DIR, which checkouts can share, otherwise a folder of the checkout. */
export function toolsCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.EXAMHALL_TOOLS_DIR || path.join(import.meta.dirname, '../../../.cache/tools'));
}

/** Returns the folder for long builds, which all checkouts of a user share. It is below XDG_CACHE_HOME, default `~/.cache`. */
export function userCache(env: NodeJS.ProcessEnv = process.env): string {
  return path.resolve(env.XDG_CACHE_HOME || path.join(os.homedir(), '.cache'), 'examhall');
}

/** Returns the absolute path of the first of `names` that is an executable file on PATH; undefined if none is. */
export function onPath(names: readonly string[], searchPath = ''): string | undefined {
  const folders = searchPath.split(path.delimiter).filter((folder) => folder !== '');
  return names.flatMap((name) => folders.map((folder) => path.resolve(folder, name))).find(isExecutable);
}

function isExecutable(file: string): boolean {
  try {
    accessSync(file, constants.X_OK);
    return statSync(file).isFile();
  } catch {
    return false;
  }
}

/** Variables that any program may need. The last two groups are read by the shims of version managers. */
const SYSTEM =
  /^(PATH|HOME|USER|LOGNAME|SHELL|TMPDIR|TMP|TEMP|TZ|LANG|LANGUAGE|LC_\w+|LD_LIBRARY_PATH|PYENV_(ROOT|VERSION)|ASDF_(DIR|DATA_DIR))$/;
const NETWORK = /^(SSL_CERT_(FILE|DIR)|CURL_CA_BUNDLE|REQUESTS_CA_BUNDLE|(HTTPS?|ALL|NO)_PROXY)$/i;
/** The user's settings of pip. The address of a package index may contain a password, which is for pip. */
const PIP = /^(PIP_\w+|XDG_(CACHE|CONFIG)_(HOME|DIRS)|NETRC)$/;
const COMPILERS = /^(CC|CXX|CFLAGS|CXXFLAGS|LDFLAGS|SDKROOT|DEVELOPER_DIR|CARGO\w*|RUST\w*|CMAKE\w*)$/;
/** Variables such as CARGO_REGISTRY_TOKEN, with which cargo publishes. */
const SECRET = /TOKEN|CREDENTIAL|PASSWORD|SECRET/i;

/** Settings of every Python: no `.pyc` files beside its modules. */
const PYTHON = { PYTHONDONTWRITEBYTECODE: '1' };

/** Returns the environment of MongoDB, Redis and their stand-ins. No token, key or connection string of the caller reaches them. */
export function serverEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return passedOn(env, [SYSTEM]);
}

/** Returns the environment of a Python program whose packages are in `folder`. PYTHONPATH and PYTHONHOME of the caller are left out. */
export function pythonEnvironment(env: NodeJS.ProcessEnv, folder?: string): NodeJS.ProcessEnv {
  const packages = folder === undefined ? {} : { PYTHONPATH: folder };
  return { ...serverEnvironment(env), ...PYTHON, ...packages };
}

export function pipEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return { ...passedOn(env, [SYSTEM, NETWORK, PIP]), ...PYTHON, PIP_DISABLE_PIP_VERSION_CHECK: '1' };
}

/**
 * Returns the environment of the engine's build. Each of about 300 crates may run its own build script, which must not see secrets of the
 * caller.
 */
export function buildEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return passedOn(env, [SYSTEM, NETWORK, COMPILERS], SECRET);
}

function passedOn(env: NodeJS.ProcessEnv, allowed: readonly RegExp[], except?: RegExp): NodeJS.ProcessEnv {
  const names = Object.keys(env).filter((name) => allowed.some((form) => form.test(name)) && !except?.test(name));
  return Object.fromEntries(names.map((name) => [name, env[name]]));
}

export interface ToolRun {
  command: string;
  args: readonly string[];
  env: NodeJS.ProcessEnv;
  cwd?: string;
  /** Kills the tool and every process that it has started. The end of this process does so too. */
  signal?: AbortSignal;
  /** Called with each piece of the tool's messages. */
  heard?: (text: string) => void;
}

/** Characters at the end of the messages that are kept for an error. */
const TAIL = 8_192;
const QUOTED_LINES = 15;

/** Runs a tool and returns its standard output. @throws Error with its last messages if it fails */
export async function runTool(what: string, { command, args, env, cwd, signal, heard }: ToolRun): Promise<string> {
  signal?.throwIfAborted();
  const child = spawn(command, args, { cwd, env, detached: true, stdio: ['ignore', 'pipe', 'pipe'] });
  const kill = () => void (child.pid !== undefined && signalGroup(child.pid, 'SIGKILL'));
  signal?.addEventListener('abort', kill, { once: true });
  process.once('exit', kill);
  let output = '';
  let messages = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    output += text;
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    messages = (messages + text).slice(-TAIL);
    heard?.(text);
  });
  try {
    const code = await new Promise<number | null>((resolve, reject) => {
      child.on('error', reject);
      child.on('close', resolve);
    });
    signal?.throwIfAborted();
    if (code !== 0) throw new Error(`${what} failed:\n${lastLines(messages.trim() === '' ? output : messages)}`);
    return output;
  } finally {
    signal?.removeEventListener('abort', kill);
    process.off('exit', kill);
  }
}

/** Returns the last lines without those of cargo's progress bar, which is redrawn over itself. */
function lastLines(messages: string): string {
  const lines = messages.split(/[\r\n]+/).map((line) => line.trimEnd());
  return lines
    .filter((line) => line !== '' && !/^\s*(Building|Fetch|Downloading) \[/.test(line))
    .slice(-QUOTED_LINES)
    .join('\n');
}
