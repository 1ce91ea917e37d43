/**
 * Environments of the programs that tools start. Each contains only what its program needs: a token, key or connection string of the
 * caller reaches no program of another publisher.
 */

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

/** Returns the environment of MongoDB, Redis and their stand-ins. */
export function serverEnvironment(env: NodeJS.ProcessEnv): NodeJS.ProcessEnv {
  return passedOn(env, [SYSTEM]);
}

/** Returns the environment of a Python program whose packages are in `folder`. PYTHONPATH and PYTHONHOME of the caller are left out. */
export function pythonEnvironment(env: NodeJS.ProcessEnv, folder?: string): NodeJS.ProcessEnv {
  const packages = folder === undefined ? {} : { PYTHONPATH: folder };
  return { ...serverEnvironment(env), ...PYTHON, ...packages };
}

/** Returns the environment of pip. */
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
