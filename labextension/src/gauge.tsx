import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { memory, partOf, percent, UNKNOWN } from './format';

const RADIUS = 34;
const CENTRE = 42;
const CIRCUMFERENCE = 2 * Math.PI * RADIUS;
const SWEEP = 0.75;
const START_DEGREES = 135;

interface IGaugeProps {
  /** Bytes in use, null where not known. */
  used: number | null;
  guaranteed: number | null;
  limit: number | null;
  trans: TranslationBundle;
}

/** A ring from nothing to the limit: filled as far as memory is used, with a tick at what is guaranteed where that is less. */
export function Gauge(props: IGaugeProps): React.JSX.Element {
  const { used, guaranteed, limit, trans } = props;
  const ofShare = used !== null && guaranteed ? percent((100 * used) / guaranteed, trans) : UNKNOWN;
  return (
    <svg
      className="jp-gpushare-Gauge"
      viewBox="0 0 84 78"
      role="img"
      aria-label={gaugeLabel(props)}
      data-testid="gpushare-gauge"
    >
      <Arc className="jp-gpushare-Gauge-track" part={1} />
      {used !== null && limit !== null && (
        <Arc className="jp-gpushare-Gauge-used" part={partOf(used, limit) / 100} />
      )}
      {guaranteed !== null && limit !== null && guaranteed < limit && (
        <Tick part={partOf(guaranteed, limit) / 100} />
      )}
      <text x={CENTRE} y={46} className="jp-gpushare-Gauge-figure">
        {ofShare}
      </text>
      <text x={CENTRE} y={60} className="jp-gpushare-Gauge-caption">
        {trans.__('of share')}
      </text>
    </svg>
  );
}

function gaugeLabel({ used, guaranteed, limit, trans }: IGaugeProps): string {
  if (used === null) {
    return trans.__('GPU memory in use is not available');
  }
  return trans.__(
    '%1 in use, %2 guaranteed, limit %3',
    memory(used, trans),
    memory(guaranteed, trans),
    memory(limit, trans)
  );
}

function Arc(props: { className: string; part: number }): React.JSX.Element {
  return (
    <circle
      className={props.className}
      r={RADIUS}
      cx={CENTRE}
      cy={CENTRE}
      strokeDasharray={`${CIRCUMFERENCE * SWEEP * props.part} ${CIRCUMFERENCE}`}
      transform={`rotate(${START_DEGREES} ${CENTRE} ${CENTRE})`}
    />
  );
}

function Tick(props: { part: number }): React.JSX.Element {
  const angle = ((START_DEGREES + 360 * SWEEP * props.part) * Math.PI) / 180;
  const at = (radius: number): [number, number] => [
    CENTRE + radius * Math.cos(angle),
    CENTRE + radius * Math.sin(angle)
  ];
  const [[x1, y1], [x2, y2]] = [at(RADIUS - 6), at(RADIUS + 6)];
  return <line className="jp-gpushare-Gauge-tick" x1={x1} y1={y1} x2={x2} y2={y2} />;
}
