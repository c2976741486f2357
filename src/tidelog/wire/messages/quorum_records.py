"""What the quorum writes into its own log: LeaderChangeMessage and VotersRecord.

- LeaderChangeMessage (KIP-595), versions 0-1; v1 (KIP-853): the voters' directories.
- VotersRecord (KIP-853), version 0.
"""

from __future__ import annotations

from uuid import UUID

from tidelog.wire.schema import NO_UUID, array, int16, int32, message, string, struct, uint16, uuid


@message
class LeaderChangeVoter:
    voter_id: int = int32()
    voter_directory_id: UUID = uuid(versions="1+", default=NO_UUID)


@message(versions="0-1", flexible="0+")
class LeaderChangeMessage:
    version: int = int16()
    leader_id: int = int32()
    voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)
    granting_voters: list[LeaderChangeVoter] = array(LeaderChangeVoter)


@message
class VotersRecordEndpoint:
    name: str = string()
    host: str = string()
    port: int = uint16()


@message(frozen=True)
class KRaftVersionFeature:
    min_supported_version: int = int16(default=0)
    max_supported_version: int = int16(default=0)


@message
class VotersRecordVoter:
    voter_id: int = int32()
    voter_directory_id: UUID = uuid()
    endpoints: list[VotersRecordEndpoint] = array(VotersRecordEndpoint)
    k_raft_version_feature: KRaftVersionFeature = struct(
        KRaftVersionFeature, default=KRaftVersionFeature(max_supported_version=1)
    )


@message(versions="0", flexible="0+")
class VotersRecord:
    version: int = int16()
    voters: list[VotersRecordVoter] = array(VotersRecordVoter)
