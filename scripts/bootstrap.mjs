// Runs a script of this project on Node 24, after installing the locked packages, and that Node, if they are missing or outdated.
// Plain JavaScript without dependencies, because a Node 18 or 20 runs this file on a fresh clone.
import { spawn, spawnSync } from 'node:child_process';
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

const root = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '..');
/** Manifest and lock of the pinned Node, a package of 190 MB. It is installed only if this Node does not fit, so no image contains it. */
const nodeManifest = path.join(root, 'scripts/start/node');
const nodeFolder = path.join(root, '.cache/node');
/** Package with the binary for this platform. The lock has its checksum, which npm verifies before it unpacks. */
const nodePackage = `node_modules/node-${process.platform}-${process.arch}`;
const packagedNode = path.join(nodeFolder, nodePackage, 'bin/node');
/** The path of Node that documents, the git hook and the programs of packages name. */
const linkedNode = path.join(root, 'node_modules/.bin/node');
const lockFile = path.join(root, '.cache/install.lock');
const [script, ...scriptArguments] = process.argv.slice(2);
/** Scripts of a production image. All other scripts need the development packages, independent of NODE_ENV. */
const productionScripts = [
  'scripts/start/dev.ts',
  'scripts/migrate.ts',
  'scripts/examhall/examhall.ts',
  'scripts/compile.ts',
];
const withoutDevelopment = process.env.NODE_ENV === 'production' && productionScripts.includes(script ?? '');

/** Processes that a stop signal ends. */
const children = new Set();
let stopping;
for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) {
  process.on(signal, () => {
    stopping = signal;
    for (const child of children) child.kill(signal);
  });
}

if (!script) fail('usage: node scripts/bootstrap.mjs <script> [arguments]', 64);
await installIfNeeded();
const node = usableNode();
linkNode(node);
// Many processes start in a cluster and in the tests; the compile cache spares each of them stripping and compiling the same files.
const compiled = process.env.NODE_COMPILE_CACHE ?? path.join(root, 'node_modules/.cache/compiled');
const env = { ...process.env, NODE_COMPILE_CACHE: compiled, NODE_COMPILE_CACHE_PORTABLE: '1' };
const child = spawn(node, [path.join(root, script), ...scriptArguments], { stdio: 'inherit', env });
children.add(child);
if (stopping) child.kill(stopping);
child.on('error', (error) => fail(`cannot run ${node}: ${error.message}`, 1));
child.on('exit', (code, signal) => process.exit(code ?? 128 + (os.constants.signals[signal] ?? 1)));

async function installIfNeeded() {
  // While another process holds the lock, node_modules may appear complete although it is not.
  if (!existsSync(lockFile) && missing().length === 0) return;
  const release = await takeInstallLock();
  try {
    // The previous holder of the lock has usually installed the packages.
    const installations = missing();
    if (installations.length > 0) await installAll(installations);
  } finally {
    release();
  }
  if (stopping) process.exit(128 + os.constants.signals[stopping]);
}

/** Returns the functions that install what is missing. */
function missing() {
  return [...(arePackagesInstalled() ? [] : [installPackages]), ...(isNodeInstalled() ? [] : [installNode])];
}

/** Returns whether every required package is installed in its locked version. npm writes the list of them at the end of an installation. */
function arePackagesInstalled() {
  const wanted = readPackages(path.join(root, 'package-lock.json'));
  const present = readPackages(path.join(root, 'node_modules/.package-lock.json'));
  if (!wanted) fail('package-lock.json is missing or unreadable', 1);
  if (!present) return false;
  return Object.entries(wanted).every(([name, { version, dev, optional, devOptional, peer }]) => {
    if (name === '' || optional || devOptional || peer || (dev && withoutDevelopment)) return true;
    return present[name]?.version === version;
  });
}

/** Returns whether the packaged Node is installed in its locked version, or is not needed, or does not exist for this platform. */
function isNodeInstalled() {
  if (ownNodeFits()) return true;
  const wanted = readPackages(path.join(nodeManifest, 'package-lock.json'))?.[nodePackage];
  const present = readPackages(path.join(nodeFolder, 'node_modules/.package-lock.json'))?.[nodePackage];
  return present?.version === wanted?.version;
}

function readPackages(file) {
  try {
    return JSON.parse(readFileSync(file, 'utf8')).packages;
  } catch {
    return undefined;
  }
}

/** Runs installations at the same time: one works while another downloads. */
async function installAll(installations) {
  const started = Date.now();
  const progress = showProgress('installing the locked packages (npm ci)');
  const failures = (await Promise.all(installations.map((install) => install()))).filter(Boolean);
  progress();
  if (stopping) return;
  const [failure] = failures;
  if (failure) {
    fail(`${failure}. Packages come from the npm registry: check the network and "npm config get registry".`, 1);
  }
  say(`packages installed in ${Math.round((Date.now() - started) / 1000)} s`);
}

function installPackages() {
  // The flag overrides NODE_ENV, which npm reads too.
  return npmCi(root, [withoutDevelopment ? '--omit=dev' : '--include=dev']);
}

function installNode() {
  mkdirSync(nodeFolder, { recursive: true });
  for (const file of ['package.json', 'package-lock.json', '.npmrc']) {
    writeFileSync(path.join(nodeFolder, file), readFileSync(path.join(nodeManifest, file)));
  }
  return npmCi(nodeFolder, ['--include=optional']);
}

/** Runs `npm ci` in a folder. Resolves with the reason of its failure, or with undefined. */
async function npmCi(cwd, options) {
  const args = ['ci', '--no-audit', '--no-fund', '--loglevel=error', ...options];
  const fromNpm = process.env.npm_execpath ?? '';
  const [command, first] = /npm-cli\.c?js$/.test(fromNpm) ? [process.execPath, [fromNpm]] : ['npm', []];
  const npm = spawn(command, [...first, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] });
  children.add(npm);
  let output = '';
  npm.stdout.on('data', (chunk) => (output += chunk));
  npm.stderr.on('data', (chunk) => (output += chunk));
  const code = await new Promise((resolve) => {
    npm.on('error', (error) => {
      output += `${error.message}\n`;
      resolve(127);
    });
    npm.on('close', (exitCode) => resolve(exitCode ?? 1));
  });
  children.delete(npm);
  return code === 0 ? undefined : `${output.trim()}\nnpm ci failed (exit ${code})`;
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
        : `No package has a binary for ${process.platform}-${process.arch}, or it could not be installed.`,
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

/** Links `node_modules/.bin/node` to the chosen Node if the link is missing or leads nowhere: `npm ci` deletes it. */
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
