// Runs a script of this project on the pinned Node, after installing the locked packages if they are missing or outdated.
// Plain JavaScript without dependencies, because a Node 18 or 20 runs this file on a fresh clone.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
const pinnedNode = path.join(root, 'node_modules/node/bin', process.platform === 'win32' ? 'node.exe' : 'node');
const lockFile = path.join(root, '.cache/install.lock');
/** Written after a complete installation; needed on platforms without a binary of the pinned Node. */
const finished = path.join(root, 'node_modules/.cache/examhall-installed');
const [script, ...scriptArguments] = process.argv.slice(2);
/** Scripts of a production image. All other scripts need the development packages, independent of NODE_ENV. */
const productionScripts = ['scripts/dev.ts', 'scripts/migrate.ts', 'scripts/examhall.ts'];
const withoutDevelopment = process.env.NODE_ENV === 'production' && productionScripts.includes(script ?? '');

let child;
let stopping;
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  process.on(signal, () => {
    stopping = signal;
    child?.kill(signal);
  });
}

if (!script) fail('usage: node scripts/bootstrap.mjs <script> [arguments]', 64);
await installIfNeeded();
const node = usableNode();
// Many processes start in a cluster and in the tests; the compile cache spares each of them stripping and compiling the same files.
const compiled = process.env.NODE_COMPILE_CACHE ?? path.join(root, '.cache/compiled');
const env = { ...process.env, NODE_COMPILE_CACHE: compiled };
child = spawn(node, [path.join(root, script), ...scriptArguments], { stdio: 'inherit', env });
if (stopping) child.kill(stopping);
child.on('error', (error) => fail(`cannot run ${node}: ${error.message}`, 1));
child.on('exit', (code, signal) => process.exit(code ?? 128 + (os.constants.signals[signal] ?? 1)));

async function installIfNeeded() {
  // While another process holds the lock, node_modules may appear complete although it is not.
  if (!existsSync(lockFile) && isInstalled()) return;
  const release = await takeInstallLock();
  try {
    // The previous holder of the lock has usually installed the packages.
    if (!isInstalled()) await install();
  } finally {
    release();
  }
  if (stopping) process.exit(128 + os.constants.signals[stopping]);
}

/**
 * Returns whether every required package is installed in its locked version and the installation is complete. The second check is needed
 * because npm lists packages before it has run their install scripts.
 */
function isInstalled() {
  const wanted = readPackages('package-lock.json');
  const present = readPackages('node_modules/.package-lock.json');
  if (!wanted) fail('package-lock.json is missing or unreadable', 1);
  if (!present || !(existsSync(finished) || existsSync(pinnedNode))) return false;
  return Object.entries(wanted).every(([name, { version, dev, optional, devOptional, peer }]) => {
    if (name === '' || optional || devOptional || peer || (dev && withoutDevelopment)) return true;
    return present[name]?.version === version;
  });
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(path.join(root, file), 'utf8')).packages;
  } catch {
    return undefined;
  }
}

async function install() {
  const started = Date.now();
  const args = [
    'ci',
    '--no-audit',
    '--no-fund',
    '--loglevel=error',
    withoutDevelopment ? '--omit=dev' : '--include=dev',
  ];
  const fromNpm = process.env.npm_execpath ?? '';
  const [command, first] = /npm-cli\.c?js$/.test(fromNpm) ? [process.execPath, [fromNpm]] : ['npm', []];
  const progress = showProgress('installing the locked packages (npm ci)');
  // The flag above overrides NODE_ENV, which npm reads too.
  child = spawn(command, [...first, ...args], { cwd: root, stdio: ['ignore', 'pipe', 'pipe'] });
  let output = '';
  child.stdout.on('data', (chunk) => (output += chunk));
  child.stderr.on('data', (chunk) => (output += chunk));
  const code = await new Promise((resolve) => {
    child.on('error', (error) => {
      output += `${error.message}\n`;
      resolve(127);
    });
    child.on('close', (exitCode) => resolve(exitCode ?? 1));
  });
  child = undefined;
  progress();
  if (stopping) return;
  if (code !== 0) {
    fail(
      `${output.trim()}\nnpm ci failed (exit ${code}). Packages come from the npm registry: check the network and "npm config get registry".`,
      1,
    );
  }
  mkdirSync(path.dirname(finished), { recursive: true });
  writeFileSync(finished, '');
  say(`packages installed in ${Math.round((Date.now() - started) / 1000)} s`);
}

/** Waits for the lock and returns a function that releases it. Two concurrent `npm ci` would delete each other's node_modules. */
async function takeInstallLock() {
  mkdirSync(path.dirname(lockFile), { recursive: true });
  let told = false;
  while (true) {
    try {
      writeFileSync(lockFile, String(process.pid), { flag: 'wx' });
      const release = () => rmSync(lockFile, { force: true });
      process.once('exit', release);
      return release;
    } catch (error) {
      if (error.code !== 'EEXIST') throw error;
    }
    if (isStale(lockFile)) rmSync(lockFile, { force: true });
    else if (!told) {
      told = true;
      say('waiting for another process that is installing the packages');
    }
    if (stopping) process.exit(128 + os.constants.signals[stopping]);
    await new Promise((resolve) => setTimeout(resolve, 300));
  }
}

function isStale(file) {
  try {
    const holder = Number(readFileSync(file, 'utf8'));
    // An empty lock belongs to a holder between open and write. An old lock names a pid that may have been reused.
    if (!holder) return Date.now() - statSync(file).mtimeMs > 5_000;
    if (Date.now() - statSync(file).mtimeMs > 15 * 60_000) return true;
    process.kill(holder, 0);
    return false;
  } catch (error) {
    return error.code !== 'EPERM';
  }
}

/** Returns the pinned Node, or the running Node if the pinned one cannot run here (for example with musl) and the version is 24 or later. */
function usableNode() {
  if (!existsSync(pinnedNode)) {
    // With ignore-scripts, the install script of this package has not run. The package has no binary without it.
    const setup = path.join(root, 'node_modules/node/installArchSpecificPackage.js');
    if (existsSync(setup)) spawnSync(process.execPath, [setup], { cwd: path.dirname(setup), stdio: 'ignore' });
  }
  if (existsSync(pinnedNode) && spawnSync(pinnedNode, ['--version']).status === 0) return pinnedNode;
  if (Number(process.versions.node.split('.')[0]) >= 24) return process.execPath;
  return fail(
    [
      `Node 24 is required: ${pinnedNode} is missing or does not run on ${process.platform}-${process.arch}.`,
      'Either let npm run the install script of the package "node" (npm rebuild node --ignore-scripts=false),',
      `or run this command with Node 24 (this is ${process.version}).`,
    ].join('\n'),
    1,
  );
}

/** Shows a counter of seconds on a terminal, one plain line elsewhere. Returns the function that ends it. */
function showProgress(what) {
  if (!process.stderr.isTTY) {
    say(`${what} …`);
    return () => {};
  }
  const started = Date.now();
  const draw = () =>
    process.stderr.write(`\r\x1b[2Kbootstrap: ${what} … ${Math.round((Date.now() - started) / 1000)} s`);
  const timer = setInterval(draw, 500);
  draw();
  return () => {
    clearInterval(timer);
    process.stderr.write('\r\x1b[2K');
  };
}

function say(line) {
  process.stderr.write(`bootstrap: ${line}\n`);
}

function fail(message, code) {
  for (const line of message.split('\n')) say(line);
  process.exit(code);
}
