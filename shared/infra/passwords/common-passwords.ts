import { dictionary } from '@zxcvbn-ts/language-common';

/**
 * Returns a function that is true for the 50,000 most frequent passwords of leaks. It expects a normalized text in lower case. Each
 * call builds its own list of about 4 MB, so call it once, when the process starts.
 */
export function commonPasswords(): (text: string) => boolean {
  const common = new Set(dictionary['passwords-common']);
  return (text) => common.has(text);
}
