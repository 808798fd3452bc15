import { meaningOf } from '../share_meaning';
import { IShareWish, readShare, writeShare } from '../share_text';
import { device, GB, snapshot, trans } from './samples';

const HALF: IShareWish = { count: 1, unit: 'gpu', request: 0.5, limit: 0.5, kind: '' };

function wishOf(text: string): IShareWish | null {
  return readShare(text, trans).wish;
}

function means(text: string, changes = {}): string {
  const wish = wishOf(text);
  return wish ? meaningOf(wish, snapshot(changes), trans) : 'no share';
}

describe('a share as people write it', () => {
  it.each([
    ['0.5', {}],
    [' 0.5 ', {}],
    ['0.25..0.8', { request: 0.25, limit: 0.8 }],
    ['2x0.5', { count: 2 }],
    ['1', { request: 1, limit: 1 }],
    ['4', { count: 4, request: 1, limit: 1 }],
    ['4@h100', { count: 4, request: 1, limit: 1, kind: 'h100' }],
    ['16GiB', { unit: 'bytes', request: 16 * 2 ** 30, limit: 16 * 2 ** 30 }],
    ['8GiB..24GiB', { unit: 'bytes', request: 8 * 2 ** 30, limit: 24 * 2 ** 30 }],
    ['512MiB', { unit: 'bytes', request: 2 ** 29, limit: 2 ** 29 }],
    ['2x0.25..0.8@a100', { count: 2, request: 0.25, limit: 0.8, kind: 'a100' }]
  ])('%p is read', (text, expected) => {
    /* The grammar is the server's. */
    expect(wishOf(text)).toEqual({ ...HALF, ...expected });
  });

  it.each([
    '0.5',
    '0.25..0.8',
    '2x0.5',
    '1',
    '4',
    '16GiB',
    '8GiB..24GiB',
    '512MiB',
    '2x0.25..0.8@a100',
    '4@h100'
  ])('%p is written as it was read', text => {
    /* A slider that moves one part must not rewrite another. */
    const wish = wishOf(text);
    expect(wish && writeShare(wish)).toBe(text);
  });

  it.each([
    ['', '0.25..0.8'],
    ['a half', '0.5 or 16GiB'],
    ['-1', '0.5 or 16GiB'],
    ['NaN', '0.5 or 16GiB'],
    ['1e3', '0.5 or 16GiB'],
    ['0.1234567', '0.5 or 16GiB'],
    ['16GB', '0.5 or 16GiB'],
    ['0', 'above zero'],
    ['0.5..', '0.5 or 16GiB'],
    ['0.8..0.25', 'smaller one first'],
    ['0.5..16GiB', 'same unit'],
    ['1.5', '2x0.75'],
    ['2x1.5', '2x0.75'],
    ['0x0.5', '2x0.5'],
    ['5000', '2x0.5'],
    ['0.5@', 'after the @'],
    ['0.5@A100', 'lower case'],
    ['0.5..0.6..0.7', '0.5 or 16GiB'],
    ['9'.repeat(200), '0.25..0.8']
  ])('%p is told what would be right', (text, expected) => {
    /* An error names the fix, before anything is sent. */
    const { wish, problem } = readShare(text, trans);
    expect(wish).toBeNull();
    expect(problem).toContain(expected);
  });
});

describe('what a share means', () => {
  it.each([
    ['0.5', 'Guaranteed: 20.0 GB of the 40.0 GB of A100-SXM4-40GB. Never more than that.'],
    [
      '0.25..0.8',
      'Guaranteed: 10.0 GB of the 40.0 GB of A100-SXM4-40GB. Up to 32.0 GB while nobody else needs it.'
    ],
    ['2x0.5', 'Guaranteed: 20.0 GB on each of 2 GPUs like A100-SXM4-40GB. Never more than that.'],
    [
      '16GiB..80GiB',
      'Guaranteed: 17.2 GB of the 40.0 GB of A100-SXM4-40GB. Up to 40.0 GB while nobody else needs it.'
    ]
  ])('%p is said in GB', (text, expected) => {
    /* Nobody computes in parts of a GPU. */
    expect(means(text)).toBe(expected);
  });

  it('is that of the kind that was asked for, not of the GPU at hand', () => {
    /* Half of another GPU is another amount. */
    const large = device({ uuid: 'GPU-h', kind: 'h100', name: 'H100', usable: 80 * GB });
    expect(means('0.5@h100', { devices: [device(), large] })).toContain('40.0 GB of the 80.0 GB of H100');
    expect(means('0.5@h100')).toContain('No GPU of kind h100 is known here');
  });

  it('is that of the smallest GPU while there is none of one’s own', () => {
    /* No more may be promised than there is. */
    const share = { ...snapshot().share, devices: [] };
    const small = device({ uuid: 'GPU-s', index: 3, name: 'T4', usable: 16 * GB });
    expect(means('0.5', { share, devices: [device(), small] })).toContain('8.0 GB of the 16.0 GB of T4');
  });

  it('is nothing where it cannot be', () => {
    /* More than there is, and no GPU at all, are said as such. */
    expect(means('64GiB')).toBe('That is more than the 40.0 GB of A100-SXM4-40GB.');
    expect(means('0.5', { devices: [] })).toContain('No GPU is known here');
  });
});
