import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { memory, percent } from './format';
import { likelyDevice, meaningOf, partOfGpu } from './share_meaning';
import { IShareWish, readShare, writeShare } from './share_text';
import { Snapshot } from './wire';

interface IFormProps {
  snapshot: Snapshot;
  /** What stands there at first. */
  text: string;
  /** Why the broker refused what stands there; empty where it was not asked. */
  refusal: string;
  /** Called with what is written, at once and on every change. */
  onChange: (text: string) => void;
  trans: TranslationBundle;
}

/** Sliders step by so much of a GPU. */
const STEP = 0.05;

const HALF: IShareWish = { count: 1, unit: 'gpu', request: 0.5, limit: 0.5, kind: '' };

/** Another share: two sliders and the words they make, or the words alone; what it means in GB stands below. */
export function ShareForm({ snapshot, text, refusal, onChange, trans }: IFormProps): React.JSX.Element {
  const [written, setWritten] = React.useState(text);
  const [slid, setSlid] = React.useState(readShare(text, trans).wish ?? HALF);
  const read = readShare(written, trans);
  const shown = read.wish ?? slid;
  // Before anything is painted: a quick Enter must not send what stood there before.
  React.useLayoutEffect(() => {
    onChange(written.trim());
  }, [written]);
  const slide = (changes: Partial<IShareWish>): void => {
    const next = { ...inGpus(shown, snapshot), ...changes };
    setSlid(next);
    setWritten(writeShare(next));
  };
  const { request, limit } = inGpus(shown, snapshot);
  return (
    <div className="jp-gpushare-ShareForm" data-testid="gpushare-share-form">
      {refusal !== '' && (
        <p className="jp-gpushare-ShareForm-refusal" role="alert" data-testid="gpushare-share-refusal">
          {refusal}
        </p>
      )}
      <Slider
        name="request"
        label={trans.__('Guaranteed')}
        part={request}
        wish={shown}
        snapshot={snapshot}
        onSlide={part => {
          slide({ request: part, limit: Math.max(part, limit) });
        }}
        trans={trans}
      />
      <Slider
        name="limit"
        label={trans.__('Up to')}
        part={limit}
        wish={shown}
        snapshot={snapshot}
        onSlide={part => {
          slide({ request: Math.min(part, request), limit: part });
        }}
        trans={trans}
      />
      <label className="jp-gpushare-ShareForm-text">
        {trans.__('Or write it')}{' '}
        <span className="jp-gpushare-ShareForm-hint">
          {trans.__('for example 0.5, 0.25..0.8, 2x0.5, 16GiB, 0.5@a100')}
        </span>
        <input
          type="text"
          value={written}
          maxLength={128}
          spellCheck={false}
          autoComplete="off"
          aria-invalid={read.problem !== null}
          aria-describedby="gpushare-share-means"
          data-testid="gpushare-share-text"
          onChange={event => {
            setWritten(event.target.value);
          }}
        />
      </label>
      <div
        id="gpushare-share-means"
        className="jp-gpushare-ShareForm-means"
        data-wrong={read.problem !== null}
        role="status"
        aria-live="polite"
        data-testid="gpushare-share-means"
      >
        {read.wish ? meaningOf(read.wish, snapshot, trans) : read.problem}
      </div>
    </div>
  );
}

interface ISliderProps {
  name: string;
  label: string;
  /** Of one GPU, from 0 to 1. */
  part: number;
  wish: IShareWish;
  snapshot: Snapshot;
  onSlide: (part: number) => void;
  trans: TranslationBundle;
}

function Slider(props: ISliderProps): React.JSX.Element {
  const { name, label, part, onSlide, trans } = props;
  const id = `gpushare-share-${name}`;
  return (
    <div className="jp-gpushare-ShareForm-part">
      <label htmlFor={id}>{label}</label>
      <span aria-hidden="true">{inWords(props)}</span>
      <input
        id={id}
        type="range"
        min={STEP}
        max={1}
        step={STEP}
        value={part}
        aria-valuetext={inWords(props)}
        data-testid={id}
        onChange={event => {
          onSlide(Number(event.target.value));
        }}
      />
      <small hidden={props.wish.count === 1}>{trans.__('on each GPU')}</small>
    </div>
  );
}

/** "50 % of a GPU, 20.0 GB". */
function inWords({ part, wish, snapshot, trans }: ISliderProps): string {
  const usable = likelyDevice(wish, snapshot)?.usable ?? null;
  const share = trans.__('%1 of a GPU', percent(100 * part, trans));
  return usable === null ? share : `${share}, ${memory(Math.floor(part * usable), trans)}`;
}

/** *wish* as parts of one GPU, as sliders show it; memory is rounded up to what can be written shortly. */
function inGpus(wish: IShareWish, snapshot: Snapshot): IShareWish {
  if (wish.unit === 'gpu') {
    return wish;
  }
  const [request, limit] = [wish.request, wish.limit].map(bytes => partOfGpu(bytes, wish, snapshot));
  return { ...wish, unit: 'gpu', request: request ?? 1, limit: limit ?? 1 };
}
