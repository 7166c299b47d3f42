"""The classes and methods of ZooKeeper's tests that run with our peers, and why the others do not run."""

from __future__ import annotations

JAVA_QUORUM = "starts Java's own quorum in its JVM"
IN_JVM = "looks into the server's Java objects or metrics"
JAVA_FILES = "reads or writes the server's files by Java's own classes, behind its back"

FOLDERS = {
    "": "is about Java's client, or starts servers that are no ServerCnxnFactory",
    "audit": "reads the Java server's audit log",
    "cli": "is about Java's command line",
    "client": "is about Java's client",
    "common": "is about Java's classes",
    "compat": "is about Java's classes",
    "server": "is about the Java server's classes",
    "server/admin": "is about the Java server's classes",
    "server/auth": "is about the Java server's classes",
    "server/controller": "is about a Java server that is made to misbehave",
    "server/embedded": "starts Java's own server by another way",
    "server/metric": "is about the Java server's classes",
    "server/persistence": "is about the Java server's classes",
    "server/quorum": JAVA_QUORUM,
    "server/quorum/auth": JAVA_QUORUM,
    "server/util": "is about the Java server's classes",
    "server/watch": "is about the Java server's classes",
    "test": "starts Java's own quorum, or is about Java's classes",
    "util": "is about Java's classes",
}
"""For each folder, the reason why its test classes do not run.

Classes that are listed below are exceptions.
"""

CLASSES = {
    IN_JVM: ("test/ACLCountTest", "test/ResponseCacheTest"),
    JAVA_FILES: ("server/InvalidSnapshotTest", "server/TxnLogDigestTest", "test/LoadFromLogTest"),
    "chooses another ServerCnxnFactory by itself": (
        "test/ACLTest",
        "test/SSLAuthTest",
        "test/SaslDigestAuthOverSSLTest",
    ),
    "replaces Java classes of the server by mocks": ("test/ThrottledOpStandaloneTest",),
    "chooses a Java watch manager that knows no recursive watches": ("test/UnsupportedAddWatcherTest",),
    "gives its server a JAAS configuration that is no file": ("test/SaslAuthDesignatedServerTest",),
    "starts a server for each of many ids, which takes many minutes": ("server/ServerIdTest",),
}
"""Test classes that do not run, keyed by the reason.

Each of these classes starts its server in the same way as the classes that run.
"""

SET_LATE = "sets a property of the server while that runs"
CALLS_CHECKER = "calls the Java server's ContainerManager, instead of waiting for it"
SWITCHES_FAILURE = "makes the Java server fail by a static switch"
NO_DATA = "wants data of the source tree, which the jar has not"

METHODS: dict[str, dict[str, str]] = {
    "RemoveWatchesTest": {
        "testRemoveAllChildWatchesOnAPath": IN_JVM,
        "testRemoveAllDataWatchesOnAPath": IN_JVM,
        "testRemoveAllPersistentRecursiveWatchesOnAPath": IN_JVM,
        "testRemoveAllPersistentWatchesOnAPath": IN_JVM,
        "testRemoveAllPersistentWatchesOnAPathPartially": IN_JVM,
        "testRemoveAllWatchesOnAPath": IN_JVM,
        "testRemovePersistentWatchesOnAPathPartially": IN_JVM,
    },
    "ZKUtilTest": {"testUnreadableFileInput": "wants a file that cannot be read, and root reads all"},
    "server/CreateContainerTest": {
        "testCascadingDeletion": CALLS_CHECKER,
        "testFalseEmpty": CALLS_CHECKER,
        "testMaxNeverUsedInterval": CALLS_CHECKER,
        "testMultiWithContainer": CALLS_CHECKER,
        "testMultiWithContainerSimple": CALLS_CHECKER,
        "testSimpleDeletion": CALLS_CHECKER,
        "testSimpleDeletionAsync": CALLS_CHECKER,
    },
    "server/CreateTTLTest": {
        "testCreate": CALLS_CHECKER,
        "testCreateAsync": CALLS_CHECKER,
        "testCreateSequential": CALLS_CHECKER,
        "testModifying": CALLS_CHECKER,
        "testMulti": CALLS_CHECKER,
    },
    "test/BufferSizeTest": {
        "testStartupFailureCreate": NO_DATA,
        "testStartupFailureSet": NO_DATA,
        "testStartupFailureSnapshot": NO_DATA,
    },
    "test/CheckTest": {"testCluster": JAVA_QUORUM, "testClusterDatabaseReloadAfterCheck": JAVA_QUORUM},
    "test/ChrootClientTest": {"testPathValidation": SWITCHES_FAILURE},
    "test/ClientSkipACLTest": {"testPathValidation": SWITCHES_FAILURE},
    "test/ClientTest": {"testPathValidation": SWITCHES_FAILURE},
    "test/SaslAuthDesignatedClientTest": {"testReadAccessUser": SET_LATE},
    "test/SaslSuperUserTest": {"testOtherSuperIsSuper": SET_LATE},
    "test/SessionTest": {"testMaximumCnxnPerIP": SET_LATE, "testMinMaxSessionTimeout": SET_LATE},
    "test/WatcherTest": {"testWatcherCount": IN_JVM},
    "test/ZooKeeperQuotaTest": {
        "testDeleteBytesQuota": IN_JVM,
        "testDeleteCountQuota": IN_JVM,
        "testSetQuotaWhenCreateNodeExceedBytesQuota": IN_JVM,
        "testSetQuotaWhenExceedBothBytesAndCountHardQuota": IN_JVM,
        "testSetQuotaWhenExceedBytesHardQuota": IN_JVM,
        "testSetQuotaWhenExceedBytesHardQuotaExtend": IN_JVM,
        "testSetQuotaWhenExceedCountHardQuota": IN_JVM,
        "testSetQuotaWhenExceedCountHardQuotaExtend": IN_JVM,
        "testSetQuotaWhenSetChildDataExceedBytesQuota": IN_JVM,
        "testSetQuotaWhenSetQuotaLessThanExistBytes": IN_JVM,
        "testSetQuotaWhenSetQuotaLessThanExistCount": IN_JVM,
    },
}
"""Reasons why some methods do not run, keyed by class and method. The classes' other methods run."""

RUN = (
    "GetAllChildrenNumberTest", "GetEphemeralsTest", "RemoveWatchesCmdTest",
    "RemoveWatchesTest", "SaslAuthTest", "ZKUtilTest", "ZooKeeperTest", "server/CreateContainerTest",
    "server/CreateTTLTest", "test/ACLRootTest", "test/AsyncOpsTest", "test/AuthSHA2Test",
    "test/AuthSHA3Test", "test/AuthTest", "test/BufferSizeTest", "test/CheckTest", "test/ChrootAsyncTest",
    "test/ChrootClientTest", "test/ChrootTest", "test/ClientHammerTest", "test/ClientPortBindTest",
    "test/ClientRetryTest", "test/ClientSkipACLTest", "test/ClientTest", "test/CreateTest",
    "test/DigestAuthDisabledTest", "test/DisconnectedWatcherTest", "test/EnforceQuotaTest", "test/EnsembleAuthTest",
    "test/FourLetterWordsTest", "test/FourLetterWordsWhiteListTest", "test/GetChildren2Test",
    "test/KeyAuthClientTest", "test/MaxCnxnsTest", "test/MultiAsyncTransactionTest", "test/MultiOperationTest",
    "test/NullDataTest", "test/PersistentRecursiveWatcherTest", "test/PersistentWatcherACLTest",
    "test/PersistentWatcherTest", "test/SaslAuthDesignatedClientTest", "test/SaslAuthFailDesignatedClientTest",
    "test/SaslAuthFailTest", "test/SaslAuthMissingClientConfigTest", "test/SaslAuthRequiredFailNoSASLTest",
    "test/SaslAuthRequiredFailWrongSASLTest", "test/SaslAuthRequiredMultiClientTest", "test/SaslAuthRequiredTest",
    "test/SaslSuperUserTest", "test/ServerCnxnTest", "test/SessionInvalidationTest", "test/SessionTest",
    "test/SessionTimeoutTest", "test/StatTest", "test/SyncCallTest", "test/WatcherFuncTest", "test/WatcherTest",
    "test/ZooKeeperQuotaTest",
)  # fmt: skip
"""Test classes that run, each in a separate JVM."""

PROPERTIES = {"test/BufferSizeTest": {"jute.maxbuffer": "100"}}
"""System properties that a test class sets itself, but only after it has started its first server.

That is too late for servers that run in another process, so the properties are set here.
"""
