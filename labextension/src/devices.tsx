import { TranslationBundle } from '@jupyterlab/translation';
import * as React from 'react';

import { Bar, IPart, Owner } from './bar';
import { divide, IDeviceParts, trainingOn } from './division';
import { explain, memory, partOf, percent } from './format';
import { ownDevicesFirst } from './share_view';
import { Device, Snapshot } from './wire';

interface IDevicesProps {
  snapshot: Snapshot;
  trans: TranslationBundle;
}

/** The session's devices as bars; the other devices it may see are folded. */
export function Devices({ snapshot, trans }: IDevicesProps): React.JSX.Element {
  const [own, foreign] = ownDevicesFirst(snapshot);
  return (
    <>
      {own.map(device => (
        <DeviceBar key={device.uuid} device={device} snapshot={snapshot} trans={trans} />
      ))}
      {foreign.length > 0 && (
        <details className="jp-gpushare-Section" data-testid="gpushare-other-devices">
          <summary>
            {trans._n('%1 more GPU, not in your share', '%1 more GPUs, not in your share', foreign.length)}
          </summary>
          {foreign.map(device => (
            <DeviceBar key={device.uuid} device={device} snapshot={snapshot} trans={trans} />
          ))}
        </details>
      )}
    </>
  );
}

function DeviceBar({ device, snapshot, trans }: IDevicesProps & { device: Device }): React.JSX.Element {
  const parts = divide(device, snapshot);
  return (
    <section className="jp-gpushare-Section" data-testid="gpushare-device" data-uuid={device.uuid}>
      <h3>
        {device.is_mig ? trans.__('MIG device %1', device.index) : trans.__('GPU %1', device.index)}{' '}
        <span title={`${device.uuid} · ${device.host}`}>{device.name}</span>
      </h3>
      <Bar kind="device" parts={barParts(parts, device)} />
      <ul className="jp-gpushare-Legend">
        {legend(parts, device, snapshot, trans).map(({ owner, label, title }) => (
          <li key={owner} title={title}>
            <i data-owner={owner} aria-hidden="true" />
            {label}
          </li>
        ))}
      </ul>
      <p className="jp-gpushare-Facts">
        <span>{trans.__('%1 in all', memory(device.usable, trans))}</span>
        <span title={explain(device.utilisation, trans)}>
          {trans.__('compute %1', percent(device.utilisation.value, trans))}
        </span>
        {device.other_holders !== null && device.other_holders > 0 && (
          <span data-testid="gpushare-other-holders">
            {trans._n('%1 other process', '%1 other processes', device.other_holders)}
          </span>
        )}
      </p>
    </section>
  );
}

function barParts(parts: IDeviceParts, device: Device): IPart[] {
  const sizes: [Owner, number | null][] = [
    ['mine', parts.mine],
    ['kept', parts.kept],
    ['handed_back', parts.handedBack],
    ['lent', parts.lent],
    ['others', parts.others],
    ['unattributed', parts.unattributed],
    ['free', parts.free]
  ];
  return sizes.map(([owner, bytes]) => ({ owner, size: partOf(bytes ?? 0, device.usable) }));
}

interface ILegendItem {
  owner: Owner;
  label: string;
  title: string;
}

function legend(
  parts: IDeviceParts,
  device: Device,
  snapshot: Snapshot,
  trans: TranslationBundle
): ILegendItem[] {
  const say = (owner: Owner, word: string, bytes: number | null, title: string): ILegendItem => ({
    owner,
    label: `${word} ${memory(bytes, trans)}`,
    title
  });
  const free = say(
    'free',
    trans.__('free'),
    parts.free,
    trans.__('Nobody uses it and nobody is promised it.')
  );
  if (parts.mine === null) {
    const why = device.mine.value === null ? device.mine : device.others;
    const known = device.used.value === null ? null : parts.unattributed;
    return [say('unattributed', trans.__('in use, not known by whom'), known, explain(why, trans)), free];
  }
  const kept = trans.__('Guaranteed to you and not used at the moment.');
  const handedBack = trans.__(
    'Yours, and handed back while you are parked: others may use it until your next cell.'
  );
  const lent = trans.__(
    'Yours, and used by training while you are parked. It leaves when your next cell runs.'
  );
  return [
    say('mine', trans.__('you'), parts.mine, explain(device.mine, trans)),
    ...(parts.kept > 0 ? [say('kept', trans.__('kept for you'), parts.kept, kept)] : []),
    ...(parts.handedBack > 0
      ? [say('handed_back', trans.__('handed back'), parts.handedBack, handedBack)]
      : []),
    ...(parts.lent > 0 ? [say('lent', trans.__('lent to training'), parts.lent, lent)] : []),
    say('others', trans.__('others'), parts.others, othersInWords(parts, device, snapshot, trans)),
    free
  ];
}

/** The driver counts a borrower among the others; the broker says how much of them it is, if it can. */
function othersInWords(
  parts: IDeviceParts,
  device: Device,
  snapshot: Snapshot,
  trans: TranslationBundle
): string {
  const found = explain(device.others, trans);
  return parts.lent > 0 && trainingOn(snapshot) === null
    ? `${found} ${trans.__('Memory of training may be counted here, too.')}`
    : found;
}
