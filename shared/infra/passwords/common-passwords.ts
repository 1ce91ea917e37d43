import { dictionary } from '@zxcvbn-ts/language-common';

/**
 * Tells whether a text, normalized and in lower case, is among the fifty thousand passwords that leaks show most often. The
 * list is kept once per call (some 4 MB): call it when the process starts.
 */
export function commonPasswords(): (text: string) => boolean {
  const common = new Set(dictionary['passwords-common']);
  return (text) => common.has(text);
}
