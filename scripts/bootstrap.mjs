// Runs a script of this project on Node 24, after installing the locked packages if they are missing or outdated.
// Plain JavaScript without dependencies, because a Node 18 or 20 runs this file on a fresh clone.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
/** Package with the binary of the pinned Node for this platform. package-lock.json has its checksum, which npm verifies before it unpacks. */
const nodePackage = `node_modules/node-${process.platform}-${process.arch}`;
const packagedNode = path.join(root, nodePackage, 'bin/node');
/** The path of Node that documents, the git hook and the programs of packages name. */
const linkedNode = path.join(root, 'node_modules/.bin/node');
const lockFile = path.join(root, '.cache/install.lock');
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
linkNode(node);
// Many processes start in a cluster and in the tests; the compile cache spares each of them stripping and compiling the same files.
const compiled = process.env.NODE_COMPILE_CACHE ?? path.join(root, 'node_modules/.cache/compiled');
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
 * Returns whether every required package is installed in its locked version. npm writes the list of installed packages at the end of an
 * installation. If the own Node fits, packages that were omitted as optional stay so.
 */
function isInstalled() {
  const wanted = readPackages('package-lock.json');
  const present = readPackages('node_modules/.package-lock.json');
  if (!wanted) fail('package-lock.json is missing or unreadable', 1);
  if (!present) return false;
  if (!ownNodeFits() && present[nodePackage]?.version !== wanted[nodePackage]?.version) return false;
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

/**
 * Returns the Node that runs the scripts: the machine's own, if it is of the pinned major version and not older than the pinned minor
 * version; otherwise the packaged one. Where that cannot run, for example with musl, any own Node from the pinned major version on.
 */
function usableNode() {
  if (ownNodeFits()) return process.execPath;
  if (existsSync(packagedNode) && spawnSync(packagedNode, ['--version']).status === 0) return packagedNode;
  const pinned = pinnedVersion();
  const [major] = process.versions.node.split('.');
  if (Number(major) >= pinned.major) return process.execPath;
  return fail(
    [
      `Node ${pinned.major} is required, and this is ${process.version}.`,
      existsSync(packagedNode)
        ? `${packagedNode} does not run on this machine.`
        : `No package has a binary for ${process.platform}-${process.arch}, or npm was told to omit optional packages.`,
      `Run this command with Node ${pinned.text}: .nvmrc names it for version managers.`,
    ].join('\n'),
    1,
  );
}

/** Returns whether the Node that runs this file may run the scripts. The scripts of package.json start this file with the Node of npm. */
function ownNodeFits() {
  const pinned = pinnedVersion();
  const [major, minor] = process.versions.node.split('.').map(Number);
  return major === pinned.major && minor >= pinned.minor;
}

function pinnedVersion() {
  const text = readFileSync(path.join(root, '.nvmrc'), 'utf8').trim();
  const [major, minor] = text.split('.').map(Number);
  return { text, major, minor };
}

/**
 * Links `node_modules/.bin/node` to the chosen Node if the link is missing or leads nowhere. Version 10 of npm deletes its own link when it
 * skips the package of the other processor, which has a program of the same name.
 */
function linkNode(target) {
  if (existsSync(linkedNode)) return;
  try {
    mkdirSync(path.dirname(linkedNode), { recursive: true });
    rmSync(linkedNode, { force: true });
    symlinkSync(target === packagedNode ? path.relative(path.dirname(linkedNode), target) : target, linkedNode);
  } catch {
    // Another process has linked it, or the folder is read-only. The scripts do not need the link.
  }
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
